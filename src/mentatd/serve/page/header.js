// The top of the page: who this is, how the cluster is in one sentence, and the few facts that are always wanted.

import { href } from "./address.js";
import { h } from "./dom.js";
import { NONE, age, whole } from "./format.js";
import { dot, named } from "./parts.js";
import { health } from "./words.js";

const LINKS = {
  connecting: ["none", "connecting"],
  live: ["ok", "live"],
  polling: ["ok", "polling"],
  lost: ["bad", "not reachable"],
};

export function header(store, open) {
  const { stats, status } = store;
  return [
    h(
      "div",
      { class: "brand", key: "brand" },
      h(
        "a",
        { href: "/", onclick: open },
        h("img", { src: "/page/icon.svg", alt: "", width: 22, height: 22 }),
        "mentatd-serve",
      ),
    ),
    h(
      "p",
      { class: "health", key: "health", role: "status" },
      stats === null ? "Loading…" : condition(store, open),
    ),
    h(
      "dl",
      { class: "facts", key: "facts" },
      fact("In flight", whole(stats?.in_flight)),
      fact("Daemons", daemons(status)),
      fact("Up", stats === null ? NONE : age(Math.floor(stats.uptime_s + store.sinceStats))),
      fact("Version", stats?.version ?? NONE),
      fact("Updates", dotted(LINKS[store.link.state])),
    ),
  ];
}

function condition(store, open) {
  if (store.link.state === "lost") {
    return [dot("bad"), h("span", null, "The router cannot be reached")];
  }
  const { level, text, name, group, rest } = health(store.stats.models, store.status?.groups, store.stuck());
  return [
    dot(level),
    h(
      "span",
      null,
      text,
      name === undefined
        ? null
        : [
            " ",
            h("a", { class: "name", href: href({ model: name, group }), onclick: open }, named(name)),
            " ",
            rest,
          ],
    ),
  ];
}

// What stands above everything while the router cannot be reached.
export function lost(store) {
  const seen = store.stats === null ? "" : " What you see below is what it said last.";
  return h(
    "p",
    { class: "banner", role: "alert", key: "lost" },
    h("b", null, "The router does not answer: "),
    `${store.link.reason}.${seen} This page keeps trying.`,
  );
}

function dotted([level, text]) {
  return [dot(level), text];
}

function fact(name, ...value) {
  return h("div", { key: name }, h("dt", null, name), h("dd", null, value));
}

function daemons(status) {
  if (status === null) return NONE;
  const all = Object.values(status.daemons);
  const connected = all.filter((daemon) => daemon.connected).length;
  return connected === all.length ? whole(all.length) : `${connected} of ${all.length}`;
}
