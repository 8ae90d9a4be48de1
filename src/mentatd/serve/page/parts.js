// Small pieces that more than one view is made of.

import { h } from "./dom.js";
import { clock, moment } from "./format.js";

// The mark before a name: its level is ok, warn, bad or none. The words beside it say the same.
export function dot(level) {
  return h("i", { class: `dot ${level}`, "aria-hidden": "true" });
}

// A text from a machine: it cannot change the direction of what stands around it.
export function named(text, className = null) {
  return h("bdi", { class: className }, text);
}

export function code(text) {
  return named(text, "code");
}

// A line of small print.
export function quiet(key, ...children) {
  return h("div", { class: "quiet", key }, children);
}

export function time(at) {
  return h("time", { datetime: moment(at), title: moment(at) }, clock(at));
}

export function text(...children) {
  return h("td", { class: "text" }, children);
}

export function figure(value) {
  return h("td", null, value);
}

// A table that may be wider than the page: it then scrolls by itself, by the keyboard too. `columns`: `[name, title]`
// of each; a name that begins with `<` is that of a column of words.
export function table(label, columns, rows) {
  const heads = columns.map(([name, title]) => {
    const words = name.startsWith("<");
    return h(
      "th",
      { scope: "col", title, class: words ? "text" : null, key: name },
      words ? name.slice(1) : name,
    );
  });
  return h(
    "div",
    { class: "scroll", key: `scroll ${label}`, role: "group", "aria-label": label, tabindex: 0 },
    h(
      "table",
      { class: "rows", "aria-label": label },
      h("thead", null, h("tr", null, heads)),
      h("tbody", null, rows),
    ),
  );
}
