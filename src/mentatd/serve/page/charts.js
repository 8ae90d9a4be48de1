// Small charts of the last five minutes, drawn as SVG.

import { h } from "./dom.js";
import { NONE, known } from "./format.js";

const SPAN_S = 300;
const GAP_S = 7; // points further apart are not joined; they come each 2 s
const WIDTH = 300; // a unit is a second
const HEIGHT = 100;

const drawn = new WeakMap(); // from a list of values to its sparkline: lists are replaced, never changed

// A line without axes. `max` is the scale's end; null: that of the values.
export function sparkline(values, times, max = null) {
  if (!values || values.every((value) => value === null)) return h("span", { class: "spark" });
  let svg = drawn.get(values);
  if (svg === undefined) {
    const end = times.at(-1);
    const top = max ?? Math.max(1e-9, ...values.filter(known));
    const runs = trace(values, times, end, top);
    svg = h(
      "svg",
      {
        class: "spark",
        viewBox: `0 -4 ${WIDTH} ${HEIGHT + 8}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      h("path", { class: "area", d: area(runs) }),
      h("path", { class: "line", d: line(runs) }),
    );
    drawn.set(values, svg);
  }
  return svg;
}

// One chart. `lines`: `{name, values, tone}`; `show` writes a value; `hover`: `{at, set}`, the share of the width at
// which all charts show their values, null for now, and how to change it.
export function chart({ title, lines, times, now, show, max = null, hover }) {
  const values = lines.flatMap((each) => each.values ?? []).filter(known);
  const top = max ?? nice(Math.max(0, ...values));
  const at = hover.at === null ? times.length - 1 : nearest(times, now - SPAN_S + hover.at * SPAN_S);
  const empty = values.length === 0;
  return h(
    "figure",
    { class: "chart", key: title },
    h(
      "figcaption",
      null,
      h("span", { class: "chart-title" }, title),
      lines.map((each) =>
        h(
          "span",
          { class: `legend ${each.tone}`, key: each.name },
          h("i", { "aria-hidden": "true" }),
          each.name,
          " ",
          h("b", null, at < 0 ? NONE : show(each.values?.[at] ?? null)),
        ),
      ),
    ),
    h(
      "div",
      {
        class: "plot",
        role: "img",
        "aria-label": described(title, lines, show),
        onpointermove: (event) => hover.set(shareAt(event)),
        onpointerleave: () => hover.set(null),
      },
      h("span", { class: "top" }, empty ? "" : show(top)),
      empty
        ? h("span", { class: "nothing" }, "nothing in the last five minutes")
        : plot(lines, times, now, top, hover.at),
    ),
    h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      h(
        "span",
        null,
        hover.at === null ? "5 min ago" : `${Math.round((1 - hover.at) * SPAN_S)} s before now`,
      ),
      h("span", null, "now"),
    ),
  );
}

function plot(lines, times, now, top, hover) {
  const runs = lines.map((each) => [each, trace(each.values ?? [], times, now, top)]);
  return h(
    "svg",
    { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [0, 50, 100].map((y) => h("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y })),
    runs.map(([each, run], index) =>
      h(
        "g",
        { class: each.tone, key: each.name },
        index === 0 ? h("path", { class: "area", d: area(run) }) : null,
        h("path", { class: "line", d: line(run) }),
      ),
    ),
    hover === null
      ? null
      : h("line", { class: "cursor", x1: hover * WIDTH, x2: hover * WIDTH, y1: 0, y2: HEIGHT }),
  );
}

// The runs without a gap: the points of each as a path has them, where it begins and ends, and how many they are.
function trace(values, times, end, top) {
  const runs = [];
  let last = null;
  values.forEach((value, index) => {
    const x = round(WIDTH - ((end - times[index]) / SPAN_S) * WIDTH);
    if (!known(value) || x < 0) {
      last = null;
      return;
    }
    if (last === null || times[index] - last > GAP_S) runs.push({ points: "", from: x, to: x, size: 0 });
    last = times[index];
    const run = runs.at(-1);
    run.points += ` ${x},${round(HEIGHT - Math.min(1, value / top) * HEIGHT)}`;
    run.to = x;
    run.size += 1;
  });
  return runs;
}

function line(runs) {
  return runs.map((run) => `M${run.points}${run.size === 1 ? "h2" : ""}`).join("");
}

function area(runs) {
  return runs
    .filter((run) => run.size > 1)
    .map((run) => `M${run.from},${HEIGHT}L${run.points}L${run.to},${HEIGHT}Z`)
    .join("");
}

function described(title, lines, show) {
  const parts = lines.map((each) => {
    const values = (each.values ?? []).filter(known);
    if (values.length === 0) return `${each.name}: nothing`;
    return `${each.name}: ${show(values.at(-1))}, at most ${show(Math.max(...values))}`;
  });
  return `${title} in the last five minutes. ${parts.join(". ")}`;
}

// The next of 1, 2, 5, 10, 20, …, so that the scale seldom moves.
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function nearest(times, wanted) {
  let best = -1;
  times.forEach((time, index) => {
    if (best < 0 || Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = index;
  });
  return best >= 0 && Math.abs(times[best] - wanted) <= GAP_S ? best : -1;
}

function shareAt(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}

function round(value) {
  return Math.round(value * 10) / 10;
}
