// Requests, one a row: those in flight, with times that go on, and those that ended.

import { h } from "./dom.js";
import { age, bytes, duration, host } from "./format.js";
import { memo } from "./memo.js";
import { code, dot, figure, named, quiet, table, text, time } from "./parts.js";
import { isOf } from "./store.js";
import { doing, outcome, shown } from "./words.js";

const ROWS_SHOWN = 50; // of those that ended
const IN_FLIGHT_COLUMNS = [
  ["<Request"],
  ["<State"],
  ["<Client"],
  ["Body", "size of the request's body"],
  ["No first byte", "time waited for the first byte of the answer's body"],
  ["First byte", "time to the first byte of the answer's body"],
  ["Returned", "bytes of the answer passed on"],
  ["Age", "since it was routed"],
];
const FINISHED_COLUMNS = [
  ["<Ended"],
  ["<Request"],
  ["<Client"],
  ["<Outcome"],
  ["Status"],
  ["Body"],
  ["First byte"],
  ["Took"],
  ["Returned"],
];

// The requests of one row of the models.
export function inFlight(store, row) {
  const rows = store.stats.requests.filter((each) => isOf(each, row));
  const all = Math.max(rows.length, row.inflight);
  const elapsed = store.sinceStats;
  return h(
    "section",
    { "aria-labelledby": "requests", key: "requests" },
    h(
      "div",
      { class: "section-head" },
      h("h2", { id: "requests" }, "In flight"),
      h("span", { class: "quiet" }, told(rows.length, all)),
    ),
    rows.length === 0
      ? null
      : table(
          "Requests in flight",
          IN_FLIGHT_COLUMNS,
          rows.map((each) => live(each, each.age_s + elapsed, row)),
        ),
  );
}

function told(few, all) {
  if (all === 0) return "No request right now.";
  if (few > 0) return shown(few, all, "request");
  return `${shown(all, all, "request")}, younger than the 200 oldest of the router`;
}

function live(request, ageS, row) {
  const { state, text: said } = doing(request, ageS, row);
  const waits = request.state === "waiting";
  const elsewhere = request.address && request.address !== row.url;
  return h(
    "tr",
    { key: request.id, class: state },
    h(
      "th",
      { scope: "row" },
      code(request.path),
      elsewhere ? quiet("at", "at ", named(host(request.address))) : null,
    ),
    h("td", { class: "text state" }, dot({ stuck: "bad", waiting: "none", streaming: "ok" }[state]), said),
    text(code(request.client)),
    figure(bytes(request.prompt_bytes)),
    figure(waits ? age(ageS) : ""),
    figure(waits ? "" : duration(request.ttfb_s)),
    figure(bytes(request.out_bytes)),
    figure(age(ageS)),
  );
}

export function finished(store, row) {
  const rows = store.finished.filter((each) => isOf(each, row)).reverse();
  return h(
    "section",
    { "aria-labelledby": "finished", key: "finished" },
    h("h2", { id: "finished" }, "Finished lately"),
    rows.length === 0
      ? h("p", { class: "nothing" }, "None of the last 200 requests was for this model.")
      : table(
          "Finished requests",
          FINISHED_COLUMNS,
          rows.slice(0, ROWS_SHOWN).map((each) => memo(`ended ${each.id}`, each, () => ended(each))),
        ),
  );
}

function ended(request) {
  return h(
    "tr",
    { key: request.id },
    h("th", { scope: "row", class: "when" }, time(request.at)),
    text(code(request.path)),
    text(code(request.client)),
    h(
      "td",
      { class: "text state" },
      dot(level(request.outcome)),
      outcome(request.outcome),
      request.failure ? quiet("failure", named(request.failure)) : null,
    ),
    figure(String(request.status)),
    figure(bytes(request.prompt_bytes)),
    figure(duration(request.ttfb_s)),
    figure(duration(request.duration_s)),
    figure(bytes(request.out_bytes)),
  );
}

function level(name) {
  if (name === "ok") return "ok";
  return name === "client_left" || name === "client_error" ? "warn" : "bad";
}

// What did not go well lately, on any model, newest first.
export function troubles(store) {
  const failures = store.finished.filter((each) => each.outcome !== "ok");
  const rows = [...failures, ...store.refused].sort((a, b) => b.at - a.at).slice(0, ROWS_SHOWN);
  return h(
    "section",
    { "aria-labelledby": "troubles", key: "troubles" },
    h("h2", { id: "troubles" }, "Refused or failed lately"),
    rows.length === 0
      ? h("p", { class: "nothing" }, "None.")
      : h("ol", { class: "lines", tabindex: 0, "aria-labelledby": "troubles" }, rows.map(trouble)),
  );
}

function trouble(request) {
  return h(
    "li",
    { key: request.id },
    time(request.at),
    h("span", { class: "code" }, String(request.status)),
    h(
      "span",
      null,
      request.model ? [named(request.model, "subject"), " "] : null,
      outcome(request.outcome),
      request.failure ? quiet("failure", named(request.failure)) : null,
    ),
  );
}
