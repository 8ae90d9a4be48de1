// Requests, one a row: those in flight, with times that go on, and those that ended.

import { h, scroll } from "./dom.js";
import { age, bytes, clock, duration, host, moment } from "./format.js";
import { dot } from "./header.js";
import { isOf } from "./store.js";
import { doing, outcome, shown } from "./words.js";

const FINISHED_SHOWN = 50;

// The requests of one row of the models.
export function inFlight(store, row) {
  const rows = store.stats.requests.filter((each) => isOf(each, row));
  const all = Math.max(rows.length, row.inflight);
  const elapsed = store.sinceStats;
  return h(
    "section", { "aria-labelledby": "requests", key: "requests" },
    h("div", { class: "section-head" }, h("h2", { id: "requests" }, "In flight"), h("span", { class: "quiet" }, told(rows.length, all))),
    rows.length === 0 ? null : scroll(
      "Requests in flight",
      h(
        "table", { class: "rows" },
        headings("Request", "State", "Client", ["Body", "size of the request's body"], ["No first byte", "time waited for the first byte of the answer's body"],
          ["First byte", "time to the first byte of the answer's body"], ["Returned", "bytes of the answer passed on"], "Age"),
        h("tbody", null, rows.map((request) => one(request, request.age_s + elapsed, row))),
      ),
    ),
  );
}

function told(few, all) {
  if (all === 0) return "No request right now.";
  if (few === 0) return `${shown(all, all, "request")}, all of them younger than the 200 oldest of the router.`;
  return shown(few, all, "request");
}

function one(request, ageS, row) {
  const { state, text } = doing(request, ageS, row);
  const waits = request.state === "waiting";
  return h(
    "tr", { key: request.id, class: state },
    h("th", { scope: "row" }, h("bdi", { class: "code" }, request.path), request.address === row.url || !request.address ? null
      : h("div", { class: "quiet", key: "at" }, "at ", h("bdi", null, host(request.address)))),
    h("td", { class: "text state" }, dot({ stuck: "bad", waiting: "none", streaming: "ok" }[state]), text),
    h("td", { class: "text" }, h("bdi", { class: "code" }, request.client)),
    h("td", null, bytes(request.prompt_bytes)),
    h("td", null, waits ? age(ageS) : ""),
    h("td", null, waits ? "" : duration(request.ttfb_s)),
    h("td", null, bytes(request.out_bytes)),
    h("td", null, age(ageS)),
  );
}

export function finished(store, row) {
  const rows = store.finished.filter((each) => isOf(each, row)).reverse();
  return h(
    "section", { "aria-labelledby": "finished", key: "finished" },
    h("h2", { id: "finished" }, "Finished lately"),
    rows.length === 0 ? h("p", { class: "nothing" }, "None of the last 200 requests was for this model.") : scroll(
      "Finished requests",
      h(
        "table", { class: "rows" },
        headings("Ended", "Request", "Client", "Outcome", "Status", "Body", "First byte", "Took", "Returned"),
        h("tbody", null, rows.slice(0, FINISHED_SHOWN).map(ended)),
      ),
    ),
  );
}

function ended(request) {
  const fine = request.outcome === "ok";
  return h(
    "tr", { key: request.id, class: fine ? "" : "failed" },
    h("th", { scope: "row", class: "when" }, time(request.at)),
    h("td", { class: "text" }, h("bdi", { class: "code" }, request.path)),
    h("td", { class: "text" }, h("bdi", { class: "code" }, request.client)),
    h(
      "td", { class: "text state" }, dot(level(request.outcome)), outcome(request.outcome),
      request.failure ? h("div", { class: "quiet", key: "failure" }, h("bdi", null, request.failure)) : null,
    ),
    h("td", null, String(request.status)),
    h("td", null, bytes(request.prompt_bytes)),
    h("td", null, duration(request.ttfb_s)),
    h("td", null, duration(request.duration_s)),
    h("td", null, bytes(request.out_bytes)),
  );
}

function level(name) {
  if (name === "ok") return "ok";
  return name === "client_left" || name === "client_error" ? "warn" : "bad";
}

// What did not go well lately, on any model, newest first.
export function troubles(store) {
  const failures = store.finished.filter((each) => each.outcome !== "ok");
  const rows = [...failures, ...store.refused].sort((a, b) => b.at - a.at).slice(0, FINISHED_SHOWN);
  return h(
    "section", { "aria-labelledby": "troubles", key: "troubles" },
    h("h2", { id: "troubles" }, "Refused or failed lately"),
    rows.length === 0 ? h("p", { class: "nothing" }, "None.") : h(
      "ol", { class: "lines", tabindex: 0, "aria-labelledby": "troubles" },
      rows.map((each) => h(
        "li", { key: each.id },
        time(each.at), h("span", { class: "code" }, String(each.status)),
        h("span", null, each.model ? [h("bdi", { class: "subject", key: "model" }, each.model), " "] : null, outcome(each.outcome),
          each.failure ? h("div", { class: "quiet", key: "failure" }, h("bdi", null, each.failure)) : null),
      )),
    ),
  );
}

export function time(at) {
  return h("time", { datetime: moment(at), title: moment(at) }, clock(at));
}

function headings(...names) {
  const heads = names.map((each) => {
    const [name, title] = Array.isArray(each) ? each : [each, null];
    const text = ["Request", "Client", "State", "Outcome", "Ended"].includes(name);
    return h("th", { scope: "col", title, class: text ? "text" : null, key: name }, name);
  });
  return h("thead", null, h("tr", null, heads));
}
