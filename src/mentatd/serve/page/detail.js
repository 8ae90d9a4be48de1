// One model, opened: its figures, five minutes of charts, its requests, its addresses, and how to try it.

import { hrefOf } from "./address.js";
import { chart } from "./charts.js";
import { h } from "./dom.js";
import { count, duration, host, percent, rate, whole } from "./format.js";
import { code, dot, named } from "./parts.js";
import { verdicts } from "./models.js";
import { finished, inFlight } from "./requests.js";
import { nameOf } from "./store.js";
import { addresses, curl, predicate, sentence } from "./words.js";

// `place`: what is open. `open` follows a link without a new page, `copy` copies the text of a button's neighbour,
// `copied` tells what came of it, `hover` is that of the charts.
export function detail(store, place, actions) {
  const row = store.find(place);
  const back = h(
    "nav",
    { key: "back", "aria-label": "Back" },
    h("a", { href: "/", onclick: actions.open }, "← All models"),
  );
  if (row === null) {
    return [
      back,
      h("h1", { key: "title", tabindex: -1 }, named(place.model)),
      h(
        "p",
        { class: "nothing", key: "nothing" },
        "Nothing serves this model, and no group of this name is known. It may come back.",
      ),
    ];
  }
  const below = [inFlight(store, row), finished(store, row)];
  const rest = row.healthy
    ? [
        figures(store, row),
        charts(store, row, actions.hover),
        ...below,
        h("div", { class: "columns", key: "columns" }, endpoint(store, row), trying(row, actions)),
      ]
    : [reason(store, row), endpoint(store, row), ...below];
  return [back, heading(store, row, actions.open), ...rest];
}

function heading(store, row, open) {
  const others = store.stats.models.filter((each) => each.model === row.model && each.group !== row.group);
  return h(
    "div",
    { class: "title", key: "title" },
    h("h1", { tabindex: -1 }, dot(row.healthy ? "ok" : "bad"), named(row.model)),
    h(
      "p",
      { class: "quiet" },
      "group ",
      named(row.group),
      row.provider ? [", served by ", h("bdi", { key: "provider" }, row.provider)] : null,
      row.url ? [", at ", h("bdi", { class: "code", key: "url" }, host(row.url))] : null,
      others.length === 0
        ? null
        : [
            ". Also served by ",
            others.map((each, index) => [
              index === 0 ? null : ", ",
              h(
                "a",
                { href: hrefOf(each, store.stats.models), onclick: open, key: each.group },
                named(each.group),
              ),
            ]),
          ],
    ),
  );
}

function figures(store, row) {
  const finishedBy = Object.entries(row.finished ?? {})
    .map(([why, number]) => `${whole(number)} by ${why}`)
    .join(", ");
  const tile = (name, value, title = null) =>
    h("div", { key: name, title }, h("dt", null, name), h("dd", null, value));
  return h(
    "section",
    { key: "figures", "aria-label": "Figures" },
    h(
      "dl",
      { class: "tiles" },
      tile("Proxied", whole(row.inflight)),
      tile("Running", whole(row.running)),
      tile("Waiting", whole(row.waiting)),
      tile("KV cache", percent(row.kv)),
      tile("Tokens/s", rate(store.seriesOf(row)?.generation_tps?.at(-1))),
      tile("Tokens in", count(row.prompt_tokens), whole(row.prompt_tokens)),
      tile("Tokens out", count(row.generation_tokens), whole(row.generation_tokens)),
      tile("First token", duration(row.ttft_s), "mean since the engine started"),
      tile("Queue", duration(row.queue_s), "mean since the engine started"),
      tile("Per token", duration(row.itl_s), "mean since the engine started"),
      tile("Preemptions", whole(row.preemptions)),
    ),
    finishedBy ? h("p", { class: "quiet", key: "finished" }, `Finished by the engine: ${finishedBy}.`) : null,
    row.engine_error
      ? h(
          "p",
          { class: "quiet", key: "error" },
          "The engine's figures cannot be read: ",
          named(row.engine_error),
        )
      : null,
  );
}

function reason(store, row) {
  const count = store.status?.groups[row.group]?.openai_candidates?.length ?? 0;
  return h(
    "section",
    { key: "reason", class: "trouble", "aria-label": "Why it cannot serve" },
    h("p", { class: "reason" }, sentence(predicate(row.why_not, count)), "."),
    h("p", { class: "code" }, named(row.why_not)),
  );
}

function charts(store, row, hover) {
  const series = store.seriesOf(row);
  if (series === null) return null;
  const common = { times: store.times, now: store.now, hover };
  const of = (name, tone, label) => ({ name: label, tone, values: series[name] });
  return h(
    "section",
    { key: "charts", class: "charts", "aria-label": "The last five minutes" },
    chart({
      ...common,
      title: "Requests",
      show: whole,
      lines: [of("proxied", "a", "proxied"), of("running", "b", "running"), of("waiting", "c", "waiting")],
    }),
    chart({
      ...common,
      title: "Tokens per second",
      show: rate,
      lines: [of("generation_tps", "a", "out"), of("prompt_tps", "b", "in")],
    }),
    chart({
      ...common,
      title: "Time to first byte",
      show: duration,
      lines: [of("ttfb_p50_s", "a", "median"), of("ttfb_p95_s", "c", "95 %")],
    }),
    chart({ ...common, title: "KV cache", show: percent, max: 1, lines: [of("kv", "a", "in use")] }),
  );
}

function endpoint(store, row) {
  const group = store.status?.groups[row.group];
  if (!group) return null;
  const found = addresses(group);
  return h(
    "section",
    { key: "endpoint", "aria-labelledby": "addresses" },
    h("h2", { id: "addresses" }, "Addresses"),
    found.length === 0 ? h("p", { class: "nothing" }, "None that may be used.") : verdicts(found),
    group.openai_note ? h("p", { key: "note" }, "Its agent reports: ", named(group.openai_note)) : null,
    h(
      "p",
      { class: "quiet", key: "from" },
      "Announced through the daemon ",
      code(group.daemon),
      ". The best address comes first.",
    ),
  );
}

function trying(row, { copy, copied }) {
  const name = nameOf(row);
  return h(
    "section",
    { key: "try", "aria-labelledby": "try" },
    h(
      "div",
      { class: "section-head" },
      h("h2", { id: "try" }, "Try it"),
      h("button", { type: "button", onclick: (event) => copy(event, name) }, "Copy"),
      h("span", { class: "quiet", role: "status" }, copied.name === name ? copied.text : ""),
    ),
    h(
      "pre",
      { dir: "ltr", tabindex: 0, "aria-labelledby": "try" },
      h("code", null, curl(location.origin, row.model)),
    ),
  );
}
