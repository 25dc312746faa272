// SPDX-License-Identifier: Apache-2.0
// Numbers, durations and times as texts.
import {store, stored} from "./storage.js";

const units = [["y", 31536000], ["w", 604800], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

export function localTime() { return stored("gpuscale.time") === "local"; }
export function setLocalTime(on) { store("gpuscale.time", on ? "local" : "utc"); }

// The value of a sample.
export const number = (text) => Number(String(text).replace("Inf", "Infinity"));

// "1h30m" in seconds; NaN: not a duration.
export function parseDuration(text) {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const parts = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/.exec(text);
  if (!text || !parts) return NaN;
  return units.reduce((sum, [, size], i) => sum + Number(parts[i + 1] || 0) * size, Number(parts[7] || 0) / 1000);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return (seconds < 0.01 ? trim(Number((seconds * 1000).toPrecision(2))) : Math.round(seconds * 1000)) + "ms";
  let rest = Math.round(seconds), text = "";
  for (const [name, size] of units.slice(2)) {
    if (rest >= size) text += Math.floor(rest / size) + name;
    rest %= size;
  }
  return text || "0s";
}

// The largest unit alone: "3m", "2h".
export function age(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) seconds = 0;
  if (seconds < 10) return seconds.toFixed(1) + "s";
  if (seconds < 120) return Math.round(seconds) + "s";
  if (seconds < 7200) return Math.round(seconds / 60) + "m";
  if (seconds < 172800) return Math.round(seconds / 3600) + "h";
  return Math.round(seconds / 86400) + "d";
}

// RFC 3339 of the API in seconds. Year 1 is Go's "never". NaN: never.
export function instant(text) {
  const ms = Date.parse(text);
  return !text || text.startsWith("0001-") || Number.isNaN(ms) ? NaN : ms / 1000;
}

export const ago = (text) => { const t = instant(text); return Number.isNaN(t) ? "never" : age(Date.now() / 1000 - t) + " ago"; };

const pad = (n) => String(n).padStart(2, "0");

// "2026-11-21 06:36:51", in UTC or in the time zone of the browser.
export function time(seconds) {
  const d = new Date(seconds * 1000);
  if (Number.isNaN(d.getTime())) return "–";
  return localTime()
    ? `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`
    : d.toISOString().slice(0, 19).replace("T", " ");
}

// What time() prints, in seconds. Links always have UTC, as those of Prometheus. NaN: not a time.
export function parseTime(text, utc = !localTime()) {
  const match = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d+)?Z?$/.exec(text.trim());
  return match ? Date.parse(match[1] + "T" + match[2] + (match[3] || ":00") + (utc ? "Z" : "")) / 1000 : NaN;
}

export const utcTime = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

// For axes: "06:36", the date at midnight, and the month for steps of years.
export function axisTime(ms, stepMs) {
  const text = time(ms / 1000);
  if (stepMs >= 31536000000) return text.slice(0, 7);
  if (stepMs >= 86400000 || text.endsWith("00:00:00")) return text.slice(5, 10);
  return stepMs < 60000 ? text.slice(11) : text.slice(11, 16);
}

// Four significant digits and a prefix: 12.35k.
export function short(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  const size = Math.abs(v);
  if (!Number.isFinite(v)) return v > 0 ? "+Inf" : "-Inf";
  if (size === 0) return "0";
  for (const [limit, name] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= limit) return trim(v / (limit === 1e4 ? 1e3 : limit)) + name;
  return size < 1e-4 ? v.toExponential(3) : trim(v);
}
const trim = (v) => String(Number(v.toPrecision(4)));

export function bytes(v) {
  if (!Number.isFinite(v)) return "–";
  for (const [size, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (v >= size) return trim(v / size) + " " + name;
  return v + " B";
}

// 12,345. (The first toLocaleString() of a page takes 30 ms.)
export const count = (v) => String(Number(v)).replace(/^-?\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));

// up{job="x"}
export function series(labels) {
  const pairs = Object.entries(labels).filter(([name]) => name !== "__name__").map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return (labels.__name__ || "") + (pairs.length || !labels.__name__ ? "{" + pairs.join(", ") + "}" : "");
}
