// The cluster: daemons, groups with their agents and addresses, and what changed.

import { href } from "./address.js";
import { h } from "./dom.js";
import { ago, counted, host } from "./format.js";
import { memo } from "./memo.js";
import { code, dot, figure, named, quiet, table, text, time } from "./parts.js";
import { change, predicate, sentence } from "./words.js";

const AGENTS_SHOWN = 8; // of one group
const DAEMON_COLUMNS = [["<Daemon"], ["<Found by"], ["<State"], ["Read"]];
const GROUP_COLUMNS = [["<Group"], ["<Agents"], ["<OpenAI address"], ["<MCP address"]];

export function cluster(store, open) {
  if (store.status === null) return null;
  const daemons = Object.entries(store.status.daemons);
  const groups = Object.entries(store.status.groups);
  return h(
    "section",
    { "aria-labelledby": "cluster", key: "cluster", class: "cluster" },
    h("h2", { id: "cluster" }, "Cluster"),
    h(
      "div",
      { class: "columns" },
      daemons.length === 0
        ? h("p", { class: "nothing", key: "none" }, "No daemon is known.")
        : table(
            "Daemons",
            DAEMON_COLUMNS,
            daemons.map((each) => daemonRow(each, store.sinceStatus)),
          ),
      groups.length === 0
        ? null
        : table(
            "Groups",
            GROUP_COLUMNS,
            groups.map(([name, group]) =>
              // of its probe nothing is shown here, and its age always grows
              memo(`group ${name}`, { ...group, probe: null }, () => groupRow(name, group, open)),
            ),
          ),
    ),
  );
}

function daemonRow([address, daemon], elapsed) {
  const level = daemon.connected ? "ok" : daemon.error ? "bad" : "none";
  return h(
    "tr",
    { key: address, class: daemon.connected ? null : "off" },
    h("th", { scope: "row" }, code(address), quiet("host", named(daemon.hostname))),
    text(daemon.source),
    h("td", { class: "text state" }, dot(level), named(stateOf(daemon))),
    figure(ago(daemon.age_s === null ? null : daemon.age_s + elapsed)),
  );
}

function stateOf(daemon) {
  if (daemon.error) return daemon.error;
  if (!daemon.connected) return "not read yet";
  return daemon.events ? "connected" : "polled; its events are not open";
}

function groupRow(name, group, open) {
  const link = href({ model: group.models?.[0] ?? name, group: name });
  return h(
    "tr",
    { key: name, class: group.healthy ? null : "off" },
    h(
      "th",
      { scope: "row" },
      dot(group.healthy ? "ok" : "bad"),
      h("a", { href: link, onclick: open }, named(name)),
      quiet("from", "from ", named(group.daemon)),
    ),
    text(agents(group)),
    text(code(host(group.openai)), quiet("standing", standing(group))),
    text(code(host(group.mcp))),
  );
}

// The agents, one a line, and how many actors run.
function agents(group) {
  const rows = group.agents ?? [];
  const more = rows.length - AGENTS_SHOWN;
  return [
    rows.slice(0, AGENTS_SHOWN).map(agentLine),
    more <= 0 ? null : quiet("more", `${more} more, ${group.agents_alive} alive in all`),
    group.actors_running === 0 && group.healthy
      ? null
      : quiet("actors", `${counted(group.actors_running, "actor")} running`),
  ];
}

function agentLine(agent) {
  const [level, said] = !agent.alive
    ? ["bad", ", lost"]
    : agent.degraded
      ? ["warn", ", degraded"]
      : ["ok", ""];
  return h(
    "div",
    { class: "agent", key: agent.id, title: agent.id },
    dot(level),
    code(agent.container || agent.id),
    h("span", { class: "quiet" }, ` on ${agent.node_ip}${said}`),
  );
}

function standing(group) {
  const all = group.openai_candidates.length;
  if (!group.healthy) return sentence(predicate(group.why_not, all));
  return all < 2 ? "" : `${group.openai_candidates.indexOf(group.openai) + 1} of ${all} addresses`;
}

export function timeline(store) {
  const rows = [...store.changes].reverse();
  return h(
    "section",
    { "aria-labelledby": "timeline", key: "timeline" },
    h("h2", { id: "timeline" }, "Timeline"),
    rows.length === 0
      ? h("p", { class: "nothing" }, "Nothing has changed since the router started.")
      : h(
          "ol",
          { class: "lines", tabindex: 0, "aria-labelledby": "timeline" },
          rows.map((row) => memo(`change ${row.id}`, row, () => changeLine(row))),
        ),
  );
}

function changeLine(row) {
  const { tone, verb, detail } = change(row.kind, row.detail);
  return h(
    "li",
    { key: row.id },
    time(row.at),
    dot(tone),
    h(
      "span",
      null,
      named(row.subject, "subject"),
      ` ${verb}`,
      detail ? quiet("detail", named(detail)) : null,
    ),
  );
}
