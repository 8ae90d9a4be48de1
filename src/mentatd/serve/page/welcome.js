// What stands in place of the models while there is none: what to do next.

import { h } from "./dom.js";
import { counted } from "./format.js";

export function welcome(status) {
  const connected = Object.values(status?.daemons ?? {}).filter((daemon) => daemon.connected).length;
  return h(
    "section",
    { class: "welcome", key: "welcome", "aria-labelledby": "welcome" },
    h("h1", { id: "welcome" }, "Nothing is served yet"),
    h(
      "p",
      null,
      "The router is up and finds models by itself, as soon as there are some. Two things make a model:",
    ),
    h(
      "ol",
      null,
      step(
        "A daemon on each box",
        connected > 0,
        connected > 0 ? `${counted(connected, "daemon")} connected.` : "None answers yet.",
        "mentatd-lite",
      ),
      step(
        "An engine that registers with it",
        false,
        "Beside the engine, with the port of its API:",
        "mentatd-register --group NAME --openai 8000/v1",
      ),
    ),
    h(
      "p",
      null,
      "No engine at hand? The demonstration starts a whole small cluster with a router of its own:",
    ),
    h("pre", null, h("code", null, "mentatd-demo --port 6391 --traffic 3")),
    h(
      "p",
      { class: "quiet" },
      "Daemons are found by their announcements, and at the addresses in MENTAT_DAEMONS. They have to pass ALLOWED_SOURCES.",
    ),
  );
}

function step(title, done, text, command) {
  return h(
    "li",
    { key: title, class: done ? "done" : "" },
    h("b", null, title),
    h("p", null, text),
    done ? null : h("pre", { key: "command" }, h("code", null, command)),
  );
}
