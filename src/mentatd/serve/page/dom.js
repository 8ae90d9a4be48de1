// The page as a function of its data. A view returns a tree of plain objects, made by `h`; `render` makes the
// document equal to it and touches only what differs, so that selections, focus and scroll positions survive.
// Text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const made = Symbol("what this node was made from");

// One element. `key`, among the attributes, names it among its siblings. An attribute that is null, undefined or
// false is left out; a function is the listener of its name (`onclick`); `value` is only given to a new element. A
// tree that is given again, the same object, is known to be unchanged.
export function h(tag, attributes, ...children) {
  return { tag, attributes: attributes ?? {}, children: children.flat(Infinity).filter(isContent) };
}

function isContent(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}

// Make the children of `parent` equal to `wanted`.
export function render(parent, wanted) {
  const present = [...parent.childNodes];
  // most often none came, went or moved
  if (present.length === wanted.length && wanted.every((child, index) => fits(present[index], child)))
    wanted.forEach((child, index) => update(present[index], child));
  else arrange(parent, present, wanted);
}

function arrange(parent, present, wanted) {
  const keyed = new Map();
  const kept = new Set();
  for (const node of present) {
    const key = keyOf(node);
    if (key !== undefined) keyed.set(key, node);
  }
  const nodes = pair(present, keyed, wanted, kept);
  for (const node of present) if (!kept.has(node)) node.remove();
  let next = parent.firstChild;
  wanted.forEach((child, index) => {
    const node = nodes[index] ?? create(child, parent);
    if (node === next) next = node.nextSibling;
    else parent.insertBefore(node, next);
    update(node, child);
  });
}

// The node that each wanted child takes over: the one with its key, or else the next one of its kind without a key.
function pair(present, keyed, wanted, kept) {
  let at = 0;
  return wanted.map((child) => {
    const key = child.attributes?.key;
    let node = null;
    if (key !== undefined) {
      node = keyed.get(key) ?? null;
      keyed.delete(key);
    } else {
      while (at < present.length && keyOf(present[at]) !== undefined) at += 1;
      if (at < present.length && sameKind(present[at], child)) node = present[at];
      at += 1;
    }
    if (node === null || !sameKind(node, child)) return null;
    kept.add(node);
    return node;
  });
}

function keyOf(node) {
  return node[made]?.attributes.key;
}

function fits(node, child) {
  return sameKind(node, child) && keyOf(node) === child.attributes?.key;
}

function sameKind(node, child) {
  return child.tag === undefined ? node.nodeType === Node.TEXT_NODE : node[made]?.tag === child.tag;
}

function create(child, parent) {
  if (child.tag === undefined) return document.createTextNode("");
  const inSvg = child.tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  const node = inSvg ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
  node[made] = { tag: child.tag, attributes: {} };
  if (child.attributes.value !== undefined) node.value = child.attributes.value;
  return node;
}

function update(node, child) {
  if (child.tag === undefined) {
    const text = String(child);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node[made].attributes;
  if (before === child.attributes) return;
  for (const name of Object.keys(before)) if (!(name in child.attributes)) set(node, name, null);
  for (const [name, value] of Object.entries(child.attributes))
    if (before[name] !== value) set(node, name, value);
  node[made] = { tag: child.tag, attributes: child.attributes };
  render(node, child.children);
}

function set(node, name, value) {
  if (name === "key" || name === "value") return;
  if (name.startsWith("on")) node[name] = value;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
