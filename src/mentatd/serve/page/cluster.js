// The cluster: daemons, groups with their agents and addresses, and what changed.

import { href } from "./address.js";
import { h, scroll } from "./dom.js";
import { ago, counted, host } from "./format.js";
import { dot } from "./header.js";
import { time } from "./requests.js";
import { change, predicate, sentence } from "./words.js";

const AGENTS_SHOWN = 8; // of one group

export function cluster(store, open) {
  if (store.status === null) return null;
  const daemons = Object.entries(store.status.daemons);
  const groups = Object.entries(store.status.groups);
  return h(
    "section", { "aria-labelledby": "cluster", key: "cluster", class: "cluster" },
    h("h2", { id: "cluster" }, "Cluster"),
    h("div", { class: "columns" }, daemonTable(daemons, store.sinceStatus), groups.length === 0 ? null : groupTable(groups, open)),
  );
}

function daemonTable(daemons, elapsed) {
  if (daemons.length === 0) return h("p", { class: "nothing", key: "daemons" }, "No daemon is known.");
  return scroll(
    "Daemons",
    h(
      "table", { class: "rows", "aria-label": "Daemons" },
      h("thead", null, h("tr", null, ["Daemon", "Found by", "State"].map((name) => h("th", { scope: "col", class: "text", key: name }, name)),
        h("th", { scope: "col" }, "Read"))),
      h("tbody", null, daemons.map(([address, daemon]) => h(
        "tr", { key: address, class: daemon.connected ? "" : "off" },
        h("th", { scope: "row" }, h("bdi", { class: "code" }, address), h("div", { class: "quiet" }, h("bdi", null, daemon.hostname))),
        h("td", { class: "text" }, daemon.source),
        h("td", { class: "text state" }, dot(daemon.connected ? "ok" : daemon.error ? "bad" : "none"), h("bdi", null, stateOf(daemon))),
        h("td", null, ago(daemon.age_s === null ? null : daemon.age_s + elapsed)),
      ))),
    ),
  );
}

function stateOf(daemon) {
  if (daemon.error) return daemon.error;
  if (!daemon.connected) return "not read yet";
  return daemon.events ? "connected" : "polled; its events are not open";
}

function groupTable(groups, open) {
  return scroll(
    "Groups",
    h(
      "table", { class: "rows", "aria-label": "Groups" },
      h("thead", null, h("tr", null, ["Group", "Agents", "OpenAI address", "MCP address"].map((name) => h("th", { scope: "col", class: "text", key: name }, name)))),
      h("tbody", null, groups.map(([name, group]) => h(
        "tr", { key: name, class: group.healthy ? "" : "off" },
        h(
          "th", { scope: "row" }, dot(group.healthy ? "ok" : "bad"),
          h("a", { href: href({ model: group.models?.[0] ?? name, group: name }), onclick: open }, h("bdi", null, name)),
          h("div", { class: "quiet" }, "from ", h("bdi", null, group.daemon)),
        ),
        h("td", { class: "text" }, agents(group)),
        h("td", { class: "text" }, h("bdi", { class: "code" }, host(group.openai)), h("div", { class: "quiet" }, standing(group))),
        h("td", { class: "text" }, h("bdi", { class: "code" }, host(group.mcp))),
      ))),
    ),
  );
}

// The agents, one a line, and how many actors run.
function agents(group) {
  const rows = group.agents ?? [];
  const shown = rows.slice(0, AGENTS_SHOWN);
  return [
    shown.map((agent) => h(
      "div", { class: "agent", key: agent.id, title: agent.id },
      dot(!agent.alive ? "bad" : agent.degraded ? "warn" : "ok"), h("bdi", { class: "code" }, agent.container || agent.id),
      h("span", { class: "quiet" }, ` on ${agent.node_ip}${agent.alive ? agent.degraded ? ", degraded" : "" : ", lost"}`),
    )),
    rows.length === shown.length ? null : h("div", { class: "quiet", key: "more" }, `${rows.length - shown.length} more, ${group.agents_alive} alive in all`),
    group.actors_running === 0 && group.healthy ? null : h("div", { class: "quiet", key: "actors" }, `${counted(group.actors_running, "actor")} running`),
  ];
}

function standing(group) {
  const all = group.openai_candidates.length;
  if (!group.healthy) return sentence(predicate(group.why_not, all));
  return all < 2 ? "" : `${group.openai_candidates.indexOf(group.openai) + 1} of ${all} addresses`;
}

export function timeline(store) {
  const rows = [...store.changes].reverse();
  return h(
    "section", { "aria-labelledby": "timeline", key: "timeline" },
    h("h2", { id: "timeline" }, "Timeline"),
    rows.length === 0 ? h("p", { class: "nothing" }, "Nothing has changed since the router started.") : h(
      "ol", { class: "lines", tabindex: 0, "aria-labelledby": "timeline" },
      rows.map((row) => {
        const { tone, verb, detail } = change(row.kind, row.detail);
        return h(
          "li", { key: row.id },
          time(row.at), dot(tone),
          h("span", null, h("bdi", { class: "subject" }, row.subject), ` ${verb}`,
            detail ? h("div", { class: "quiet", key: "detail" }, h("bdi", null, detail)) : null),
        );
      }),
    ),
  );
}
