// Trees of the last drawing, to be given again where what they were made from is the same: `render` knows a tree that
// it is given again, so that of two hundred rows only those that changed cost something.

let last = new Map();
let current = new Map();

// The tree that `make` returns, or the one that it returned for this `key` in the last drawing, if what was `given`
// then, as JSON, is what is given now. All that the tree depends on and that may change must be in `given`.
export function memo(key, given, make) {
  const text = JSON.stringify(given);
  const before = current.get(key) ?? last.get(key);
  const kept = before?.text === text ? before : { text, tree: make() };
  current.set(key, kept);
  return kept.tree;
}

// A drawing is done: what it did not use is forgotten.
export function settle() {
  last = current;
  current = new Map();
}
