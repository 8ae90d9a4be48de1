// The page: what is known and what is open, drawn whenever one of them changes.

import { href, read } from "./address.js";
import { cluster, timeline } from "./cluster.js";
import { detail } from "./detail.js";
import { h, render } from "./dom.js";
import { header, lost } from "./header.js";
import { Link } from "./link.js";
import { settle } from "./memo.js";
import { models } from "./models.js";
import { troubles } from "./requests.js";
import { Store } from "./store.js";
import { welcome } from "./welcome.js";

const TICK_MS = 1000;
const TICK_WHILE_REQUESTS_SHOW_MS = 200;

const store = new Store();
const [top, main] = [document.querySelector("#top"), document.querySelector("#main")];
let place = read(location.search);
let hoverAt = null;
let copied = { name: null, text: "" };
let due = false;
let ticker = null;

function draw() {
  due = false;
  const view = { connecting: store.stats === null, detail: place.model !== null };
  render(top, header(store, open));
  render(
    main,
    [
      store.link.state === "lost" ? lost(store) : null,
      ...(view.connecting ? [] : view.detail ? detail(store, place, actions) : overview()),
    ].filter((each) => each !== null),
  );
  settle();
  main.className = `${view.detail ? "detail" : "overview"} ${store.link.state}`;
  document.title = view.detail ? `${place.model} · mentatd-serve` : "mentatd-serve";
}

function overview() {
  const empty = store.stats.models.length === 0;
  return [
    empty ? welcome(store.status) : models(store, place, actions),
    cluster(store, open),
    h("div", { class: "columns", key: "lately" }, timeline(store), troubles(store)),
  ];
}

// At most once a frame, whatever happens.
function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(draw);
}

function tick() {
  clearTimeout(ticker);
  if (document.hidden) return;
  const quick = place.model !== null && store.stats?.requests.length > 0 && store.link.state !== "lost";
  ticker = setTimeout(
    () => {
      changed();
      tick();
    },
    quick ? TICK_WHILE_REQUESTS_SHOW_MS : TICK_MS,
  );
}

// Follow a link of the page; one that is to open elsewhere is the browser's.
function open(event) {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.pushState(null, "", event.currentTarget.href);
  moved();
}

function moved() {
  place = read(location.search);
  hoverAt = null;
  copied = { name: null, text: "" };
  main.replaceChildren();
  draw();
  scrollTo(0, 0);
  (main.querySelector("h1") ?? main).focus({ preventScroll: true });
}

function find(text) {
  place = { ...place, find: text };
  history.replaceState(null, "", href(place));
  changed();
}

// Copy the text beside a button. A page that did not come by HTTPS has no clipboard but the old way's.
async function copy(event, name) {
  const text = event.currentTarget.closest("section").querySelector("pre");
  let done = false;
  try {
    await navigator.clipboard.writeText(text.textContent);
    done = true;
  } catch {
    getSelection().selectAllChildren(text);
    done = document.execCommand("copy");
  }
  copied = { name, text: done ? "Copied." : "Selected: copy it with the keyboard." };
  changed();
}

const actions = {
  open,
  find,
  copy,
  get copied() {
    return copied;
  },
  get hover() {
    return {
      at: hoverAt,
      set(at) {
        hoverAt = at;
        changed();
      },
    };
  },
};

addEventListener("popstate", moved);
document.addEventListener("visibilitychange", tick);
draw();
tick();
new Link(store, changed).run();
