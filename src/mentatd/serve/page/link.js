// How the documents come: as a stream of events, or by asking again and again where the stream cannot be had.
//
// Whatever goes wrong with the stream, it is given up and the router is asked at once: its answer tells whether it can
// be reached. While the page is hidden nothing is asked for at all.

const POLL_MS = 2000;
const STATUS_EVERY = 3; // polls
const SILENT_MS = 15000; // the router says something each 5 s
const RETRY_STREAM_MS = 15000;
const ANSWER_MS = 8000;

export class Link {
  #store;
  #changed;
  #stream = null;
  #timer = null;
  #watchdog = null;
  #round = 0; // each start and stop is a new one: what an older one asked for is dropped
  #polls = 0;
  #streamFailedAt = -Infinity;

  // `changed` is called after each change of `store`.
  constructor(store, changed) {
    this.#store = store;
    this.#changed = changed;
  }

  // Follow the document's visibility from now on.
  run() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    if (!document.hidden) this.start();
  }

  start() {
    this.stop();
    this.#openStream();
  }

  stop() {
    this.#round += 1;
    this.#closeStream();
    clearTimeout(this.#timer);
  }

  #openStream() {
    const stream = new EventSource("/events.json");
    this.#stream = stream;
    this.#listen();
    const on = (name, take) =>
      stream.addEventListener(name, (event) => {
        this.#listen();
        take(JSON.parse(event.data));
        this.#changed();
      });
    on("state", ({ stats, status }) => {
      this.#store.takeStats(stats);
      this.#store.takeStatus(status);
      this.#store.takeLink("live");
      this.#fetchHistory();
    });
    on("stats", (stats) => this.#store.takeStats(stats));
    on("status", (status) => this.#store.takeStatus(status));
    on("recent", (recent) => this.#store.takeRecent(recent));
    stream.onerror = () => this.#giveUp();
  }

  #listen() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#giveUp(), SILENT_MS);
  }

  #closeStream() {
    clearTimeout(this.#watchdog);
    this.#stream?.close();
    this.#stream = null;
  }

  #giveUp() {
    this.#closeStream();
    this.#streamFailedAt = performance.now();
    this.#polls = 0;
    this.#poll();
  }

  async #poll() {
    const round = this.#round;
    try {
      const first = this.#polls % STATUS_EVERY === 0;
      const asked = [
        ask("/stats.json"),
        first ? ask("/status.json") : null,
        first ? ask("/history.json") : null,
      ];
      const [stats, status, history] = await Promise.all(asked);
      if (round !== this.#round) return;
      this.#polls += 1;
      this.#store.takeStats(stats);
      if (status) this.#store.takeStatus(status);
      if (history) this.#store.takeHistory(history);
      this.#answered();
    } catch (error) {
      if (round !== this.#round) return;
      this.#polls = 0;
      this.#store.takeLink("lost", error.message);
      this.#again();
    }
    this.#changed();
  }

  // The router answers: try the stream, if it was not tried just now.
  #answered() {
    const wasLost = this.#store.link.state === "lost";
    this.#store.takeLink("polling");
    if (wasLost || performance.now() - this.#streamFailedAt > RETRY_STREAM_MS) this.#openStream();
    else this.#again();
  }

  #again() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#poll(), POLL_MS);
  }

  async #fetchHistory() {
    const round = this.#round;
    this.#store.expectHistory();
    try {
      const history = await ask("/history.json");
      if (round === this.#round) this.#store.takeHistory(history);
    } catch {
      this.#store.missHistory();
    }
    this.#changed();
  }
}

async function ask(path) {
  let answer;
  try {
    answer = await fetch(path, { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store" });
  } catch (error) {
    throw new Error(
      error.name === "TimeoutError" ? `no answer within ${ANSWER_MS / 1000} s` : "no connection",
    );
  }
  if (!answer.ok) throw new Error(await reasonOf(answer));
  return answer.json();
}

// The router says in words why it refuses.
async function reasonOf(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return `it answers ${answer.status}`;
  }
}
