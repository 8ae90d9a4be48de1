// What the page knows: the router's newest documents, and what happened lately. All of it is bounded.

import { doing } from "./words.js";

export const FINISHED_KEPT = 200;
export const REFUSED_KEPT = 50;
export const CHANGES_KEPT = 200;
export const POINTS_KEPT = 150;
export const REQUESTS_SHOWN = 200;
const HELD_BACK = 30; // events that came while the history was asked for

const FIGURES = [
  "proxied",
  "running",
  "waiting",
  "kv",
  "prompt_tps",
  "generation_tps",
  "ttfb_p50_s",
  "ttfb_p95_s",
];

export class Store {
  stats = null;
  status = null;
  finished = []; // oldest first, as all lists here
  refused = [];
  changes = [];
  times = []; // of the series' points, Unix seconds
  points = 0; // grows with each change of the series
  link = { state: "connecting", reason: "" };
  #series = new Map();
  #waiting = null; // what `recent` brought while the history is on its way
  #statsAt = 0;
  #statusAt = 0;
  #stoppedAt = null;
  #clock;

  constructor(clock = () => performance.now() / 1000) {
    this.#clock = clock;
  }

  takeStats(stats) {
    stats.requests = stats.requests.slice(0, REQUESTS_SHOWN);
    this.stats = stats;
    this.#statsAt = this.#clock();
  }

  takeStatus(status) {
    this.status = status;
    this.#statusAt = this.#clock();
  }

  takeLink(state, reason = "") {
    if (state === "lost") this.#stoppedAt ??= this.#clock();
    else this.#stoppedAt = null;
    this.link = { state, reason };
  }

  // Seconds since the newest document of either kind was made: what to add to the ages in it. Stands still while the
  // router cannot be reached.
  get sinceStats() {
    return this.#since(this.#statsAt);
  }

  get sinceStatus() {
    return this.#since(this.#statusAt);
  }

  get now() {
    return (this.stats?.at ?? 0) + this.sinceStats;
  }

  #since(at) {
    return Math.max(0, (this.#stoppedAt ?? this.#clock()) - at);
  }

  // The history is about to be asked for: keep what comes meanwhile.
  expectHistory() {
    this.#waiting = [];
  }

  takeHistory(history) {
    this.finished = history.finished.slice(-FINISHED_KEPT);
    this.refused = history.refused.slice(-REFUSED_KEPT);
    this.changes = history.changes.slice(-CHANGES_KEPT);
    const { at, models } = history.series;
    this.times = at.slice(-POINTS_KEPT);
    this.points += 1;
    const none = () => this.times.map(() => null);
    this.#series = new Map(
      models.map((line) => [
        nameOf(line),
        {
          ...line,
          ...Object.fromEntries(FIGURES.map((name) => [name, line[name]?.slice(-POINTS_KEPT) ?? none()])),
        },
      ]),
    );
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const recent of waiting) this.takeRecent(recent);
  }

  // The history could not be had; what came meanwhile is all there is.
  missHistory() {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    for (const recent of waiting) this.takeRecent(recent);
  }

  takeRecent(recent) {
    if (this.#waiting !== null) {
      this.#waiting = [...this.#waiting, recent].slice(-HELD_BACK);
      return;
    }
    this.finished = added(this.finished, recent.finished, FINISHED_KEPT);
    this.refused = added(this.refused, recent.refused, REFUSED_KEPT);
    this.changes = added(this.changes, recent.changes, CHANGES_KEPT);
    if (recent.point && recent.point.at > (this.times.at(-1) ?? 0)) this.#addPoint(recent.point);
  }

  #addPoint(point) {
    const before = this.times.length;
    this.times = [...this.times, point.at].slice(-POINTS_KEPT);
    this.points += 1;
    const models = new Map(point.models.map((model) => [nameOf(model), model]));
    const next = new Map();
    for (const [name, line] of new Map([...models, ...this.#series])) {
      const lists = FIGURES.map((figure) => {
        const past = line === models.get(name) ? new Array(before).fill(null) : line[figure];
        return [figure, [...past, models.get(name)?.[figure] ?? null].slice(-POINTS_KEPT)];
      });
      if (lists.some(([, list]) => list.some((value) => value !== null))) {
        next.set(name, { model: line.model, group: line.group, ...Object.fromEntries(lists) });
      }
    }
    this.#series = next;
  }

  // Five minutes of one row of the models, or null.
  seriesOf(row) {
    return this.#series.get(nameOf(row)) ?? null;
  }

  // How many requests of this row its engine holds, as far as they are listed, and works on nothing.
  stuckOf(row) {
    const held = (each) =>
      isOf(each, row) && doing(each, each.age_s + this.sinceStats, row).state === "stuck";
    return row.running === 0 ? this.stats.requests.filter(held).length : 0;
  }

  // The rows of the models whose engine holds requests and works on nothing.
  stuck() {
    return this.stats.models.filter((row) => this.stuckOf(row) > 0);
  }

  // The row of the models that an address of this page asks for, or the row of its group that cannot serve.
  find({ model, group }) {
    const rows = this.stats?.models ?? [];
    const fits = (row) => group === null || row.group === group;
    const found = rows.find((row) => row.model === model && fits(row));
    if (found) return found;
    const groups = new Set(group === null ? this.#servedBy(model) : [group]);
    return rows.find((row) => !row.healthy && groups.has(row.group)) ?? null;
  }

  #servedBy(model) {
    return [...this.#series.values()].filter((line) => line.model === model).map((line) => line.group);
  }
}

export function nameOf(row) {
  return JSON.stringify([row.model, row.group]);
}

// A request, or what stands for one, is of this row of the models.
export function isOf(request, row) {
  return request.model === row.model && request.group === row.group;
}

function added(rows, more, most) {
  if (more.length === 0) return rows;
  const present = new Set(rows.map((row) => row.id));
  const news = more.filter((row) => !present.has(row.id));
  return news.length === 0 ? rows : [...rows, ...news].slice(-most);
}
