// Figures as people read them. A figure that is not known is null, and reads as a dash.

export const NONE = "–";
const grouped = new Intl.NumberFormat("en"); // made once: it costs more than all that it formats in a drawing

// 950, 12.4 k, 1.24 M
export function count(value) {
  if (!known(value)) return NONE;
  if (value < 1000) return String(Number.isInteger(value) ? value : digits(value));
  return scaled(value, 1000, ["", " k", " M", " G", " T"]);
}

export function whole(value) {
  return known(value) ? grouped.format(Math.round(value)).replaceAll(",", " ") : NONE;
}

// 512 B, 1.2 kB, 34 MB
export function bytes(value) {
  return known(value) ? scaled(value, 1000, [" B", " kB", " MB", " GB", " TB"]) : NONE;
}

// Tokens or requests in a second.
export function rate(value) {
  if (!known(value)) return NONE;
  return value === 0 ? "0" : value < 10 ? value.toFixed(1) : count(Math.round(value));
}

export function percent(share) {
  return known(share) ? `${Math.round(share * 100)} %` : NONE;
}

// A time that was measured: 0.4 ms, 83 ms, 4.21 s, 42.0 s, 3 min 12 s
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.00995) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  return age(seconds);
}

// A time that goes on: 0.4 s, 42 s, 3 min 12 s, 5 h 12 min, 3 d 4 h. Its width changes seldom.
export function age(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 10) return `${Math.max(0, Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// How long ago, in whole units: it changes once a second.
export function ago(seconds) {
  if (!known(seconds)) return "never";
  return seconds < 60 ? `${Math.floor(seconds)} s ago` : `${age(seconds)} ago`;
}

// The time of day here, of Unix seconds.
export function clock(at) {
  return known(at) ? new Date(at * 1000).toLocaleTimeString("en-GB") : NONE;
}

export function moment(at) {
  return known(at) ? new Date(at * 1000).toISOString() : null;
}

// "1 model", "3 models"
export function counted(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// An address without what all of them have in common.
export function host(url) {
  return url === null || url === undefined ? NONE : url.replace(/^http:\/\//, "");
}

export function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)}${units[unit]}`;
}

// Three digits that count.
function digits(value) {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : String(Math.round(value));
}
