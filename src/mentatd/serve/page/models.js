// The table of models: a row for each model and each group that serves it.

import { hrefOf } from "./address.js";
import { sparkline } from "./charts.js";
import { h } from "./dom.js";
import { counted, count, duration, host, percent, rate, whole } from "./format.js";
import { memo } from "./memo.js";
import { code, dot, named } from "./parts.js";
import { nameOf } from "./store.js";
import { addresses, predicate, sentence } from "./words.js";

const FILTER_FROM = 8; // rows
const COLUMNS = [
  ["Proxied", "requests that the router carries now"],
  ["Running", "requests that the engine works on"],
  ["Waiting", "requests that the engine has queued"],
  ["KV cache", "share of the engine's KV cache in use"],
  ["Tokens/s", "tokens generated per second"],
  ["Tokens in", "prompt tokens since the engine started"],
  ["Tokens out", "tokens generated since the engine started"],
  ["First token", "mean time to the first token since the engine started"],
  ["Queue", "mean time in the engine's queue since it started"],
  ["Per token", "mean time between two tokens since the engine started"],
];

// `place`: what is open, `open`: follows a link without a new page, `find`: takes what is typed into the filter.
export function models(store, place, { open, find }) {
  const { models: all } = store.stats;
  const wanted = place.find.trim().toLowerCase();
  const rows = all.filter((row) => `${row.model}\n${row.group}`.toLowerCase().includes(wanted));
  return h(
    "section",
    { "aria-labelledby": "models", key: "models" },
    h(
      "div",
      { class: "section-head" },
      h("h1", { id: "models", tabindex: -1 }, "Models"),
      all.length < FILTER_FROM && wanted === ""
        ? null
        : h("input", {
            key: "find",
            type: "search",
            class: "find",
            placeholder: "Filter",
            "aria-label": "Filter models by name or group",
            value: place.find,
            spellcheck: "false",
            autocomplete: "off",
            oninput: (event) => find(event.target.value),
          }),
      wanted === ""
        ? null
        : h("span", { class: "quiet", key: "found" }, `${counted(rows.length, "row")} of ${all.length}`),
    ),
    rows.length === 0
      ? h("p", { class: "nothing" }, "No model or group has this in its name.")
      : table(store, rows, open),
  );
}

function table(store, rows, open) {
  return h(
    "table",
    { class: "models", role: "table", "aria-label": "Models" },
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        h("th", { class: "what", scope: "col", role: "columnheader" }, "Model"),
        COLUMNS.map(([name, title]) =>
          h("th", { scope: "col", role: "columnheader", title, key: name }, name),
        ),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) => line(store, row, open)),
    ),
  );
}

function line(store, row, open) {
  const group = store.status?.groups[row.group];
  const about = {
    row,
    open,
    href: hrefOf(row, store.stats.models),
    notes: notes(row, group),
    stuck: store.stuckOf(row),
  };
  if (row.healthy)
    return memo(`serving ${nameOf(row)}`, [about, store.points], () => serving(store, about));
  const trouble = { found: group ? addresses(group) : [], note: group?.openai_note };
  return memo(`failing ${nameOf(row)}`, [about, trouble], () => failing(about, trouble));
}

function serving(store, about) {
  const { row } = about;
  const series = store.seriesOf(row) ?? {};
  const { times } = store;
  const figure = (label, text, full, spark = null) =>
    h(
      "td",
      { role: "cell", "data-label": label, key: label, title: full },
      h("span", { class: text === "0" ? "figure zero" : "figure" }, text),
      spark,
    );
  const spark = (name, max) => sparkline(series[name], times, max);
  return h(
    "tr",
    { role: "row", key: nameOf(row) },
    name(about),
    figure("Proxied", whole(row.inflight), null, spark("proxied")),
    figure("Running", whole(row.running), null, spark("running")),
    figure("Waiting", whole(row.waiting), null, spark("waiting")),
    figure("KV cache", percent(row.kv), null, spark("kv", 1)),
    figure("Tokens/s", rate(series.generation_tps?.at(-1)), null, spark("generation_tps")),
    figure("Tokens in", count(row.prompt_tokens), whole(row.prompt_tokens)),
    figure("Tokens out", count(row.generation_tokens), whole(row.generation_tokens)),
    figure("First token", duration(row.ttft_s)),
    figure("Queue", duration(row.queue_s)),
    figure("Per token", duration(row.itl_s)),
  );
}

function failing(about, { found, note }) {
  const { row } = about;
  return h(
    "tr",
    { role: "row", key: nameOf(row), class: "off" },
    name(about),
    h(
      "td",
      { role: "cell", class: "why", colspan: COLUMNS.length, "aria-colspan": COLUMNS.length, key: "why" },
      h("p", { class: "reason" }, sentence(predicate(row.why_not, found.length))),
      note ? h("p", { key: "note" }, "Its agent reports: ", named(note)) : null,
      found.length === 0 ? null : verdicts(found),
      row.inflight > 0 ? h("p", { key: "carried" }, `${counted(row.inflight, "request")} in flight`) : null,
    ),
  );
}

// Each address of a group, with what came of it.
export function verdicts(found) {
  return h(
    "ul",
    { class: "verdicts", key: "verdicts" },
    found.map(({ url, level, verdict, seconds }) =>
      h(
        "li",
        { key: url },
        dot(level),
        code(host(url)),
        " ",
        h("span", { class: level }, named(verdict)),
        seconds === undefined ? null : h("span", { class: "quiet", key: "seconds" }, ` ${duration(seconds)}`),
      ),
    ),
  );
}

function name({ row, href, notes, stuck, open }) {
  return h(
    "th",
    { scope: "row", role: "rowheader", class: "what", key: "what" },
    h(
      "div",
      { class: "name" },
      dot(row.healthy ? "ok" : "bad"),
      h("a", { href, onclick: open, title: row.model }, named(row.model)),
    ),
    h(
      "div",
      { class: "notes" },
      notes.map((note) => h("span", { key: note }, named(note))),
    ),
    stuck === 0
      ? null
      : h(
          "div",
          { class: "notes bad", key: "stuck" },
          `${counted(stuck, "request")} without a first byte, and the engine reports nothing running`,
        ),
  );
}

// What else is to be said of a row, each in a few words.
function notes(row, group) {
  const found = [];
  if (row.group !== row.model) found.push(row.group);
  if (row.provider) found.push(row.provider);
  if (row.healthy) {
    const at = group?.openai_candidates?.indexOf(row.url) ?? -1;
    if (at > 0) found.push(`on its address ${at + 1} of ${group.openai_candidates.length}`);
    if (row.engine_error) found.push("no figures from the engine");
  }
  return found;
}
