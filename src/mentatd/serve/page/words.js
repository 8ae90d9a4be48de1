// What the figures mean, in words. Nothing here knows the document.

import { counted } from "./format.js";

export const STUCK_AFTER_S = 5; // as old as an engine's figure can be

const GATES = [
  [/^no announced OpenAI endpoint/, "has announced no OpenAI endpoint"],
  [/^announced .*ALLOWED_SOURCES/s, "is announced only at addresses outside ALLOWED_SOURCES"],
  [/^no running actors/, "waits for a running actor"],
  [/^not probed yet/, "is about to be probed"],
  [/^endpoint probe failed/, "does not answer at its address"],
  [/^endpoint probe stale/, "has not answered a probe lately"],
];

// Why a group cannot serve, as what follows its name in a sentence. `addresses`: how many it could answer at.
export function predicate(whyNot, addresses = 1) {
  const gate = GATES.find(([pattern]) => pattern.test(whyNot ?? ""));
  if (gate === undefined) return whyNot ? `cannot serve: ${whyNot}` : "cannot serve";
  if (gate === GATES[4] && addresses > 1) return `answers at none of its ${addresses} addresses`;
  return gate[1];
}

export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// The cluster's health: `level` is ok, warn, bad or none; `text` the sentence up to the name of what it is about, if
// it is about one, and `rest` what follows that. A group that cannot serve comes first, then one whose engine is
// `stuck`.
export function health(models, groups = {}, stuck = []) {
  if (models.length === 0) return { level: "none", text: "No model yet" };
  const down = models.filter((row) => !row.healthy);
  const serving = new Set(models.filter((row) => row.healthy).map((row) => row.model)).size;
  const total = serving + down.length;
  if (down.length === 0) {
    const text = total === 1 ? "The one model is serving" : `All ${total} models serving`;
    if (stuck.length === 0) return { level: "ok", text };
    const [{ model, group }] = stuck;
    return {
      level: "warn",
      text: `${text};`,
      name: model,
      group,
      rest: "holds requests while its engine reports nothing running",
    };
  }
  const [first] = down;
  const more = down.length - 1;
  const others = more === 0 ? "" : `, and ${more} more cannot serve`;
  const addresses = groups[first.group]?.openai_candidates?.length;
  return {
    level: serving === 0 ? "bad" : "warn",
    text: total === 1 ? "The one model is not serving;" : `${serving || "None"} of ${total} models serving;`,
    name: first.group,
    group: first.group,
    rest: `${predicate(first.why_not, addresses)}${others}`,
  };
}

// What a request in flight does. `row` is its model's row, which may be missing.
export function doing(request, ageS, row) {
  if (request.state !== "waiting") return { state: "streaming", text: "streaming" };
  if (row?.running === 0 && ageS >= STUCK_AFTER_S) {
    return { state: "stuck", text: "no first byte, while the engine reports nothing running" };
  }
  return { state: "waiting", text: "waiting for the first byte" };
}

const OUTCOMES = {
  ok: "answered",
  client_error: "refused by the engine",
  engine_error: "engine error",
  client_left: "client left",
  failed: "no answer",
  unreachable: "not connected",
  timeout: "timed out",
  cut: "broke off",
};

export function outcome(name) {
  return OUTCOMES[name] ?? name.replaceAll("_", " ");
}

// A line of the timeline: its tone, and what happened to the subject.
export function change(kind, detail) {
  switch (kind) {
    case "daemon_seen":
      return { tone: "ok", verb: "daemon seen", detail };
    case "daemon_lost":
      return { tone: "bad", verb: "daemon lost", detail };
    case "group_admitted":
      return { tone: "ok", verb: "admitted", detail };
    case "group_refused":
      return { tone: "bad", verb: predicate(detail), detail };
    case "group_gone":
      return { tone: "none", verb: "gone: no daemon reports it any more", detail };
    case "address_moved":
      return { tone: "warn", verb: "moved to another address", detail };
    default:
      return { tone: "none", verb: kind.replaceAll("_", " "), detail };
  }
}

// Each address of a group with what is known of it, best first.
export function addresses(group) {
  const attempts = new Map((group.probe?.attempts ?? []).map((attempt) => [attempt.url, attempt]));
  return (group.openai_candidates ?? []).map((url) => {
    const attempt = attempts.get(url);
    const used = group.healthy && url === group.openai;
    if (attempt === undefined)
      return { url, used, level: used ? "ok" : "none", verdict: used ? "in use" : "not tried" };
    if (attempt.error) return { url, used, level: "bad", verdict: attempt.error, seconds: attempt.seconds };
    return {
      url,
      used,
      level: "ok",
      verdict: used ? "in use, answers" : "answers",
      seconds: attempt.seconds,
    };
  });
}

// What to try a model with. Characters that could change how the line looks are written as JSON escapes.
export function curl(origin, model) {
  const body = { model, messages: [{ role: "user", content: "Hello" }], stream: true };
  const json = JSON.stringify(body)
    .replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, escaped)
    .replaceAll("'", "\\u0027");
  return `curl -N ${origin}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${json}'`;
}

function escaped(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

export function shown(few, all, noun) {
  return few === all ? counted(all, noun) : `the oldest ${few} of ${counted(all, noun)}`;
}
