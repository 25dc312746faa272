// SPDX-License-Identifier: Apache-2.0
// Values with the units of dashboards, such as "bytes" or "percentunit".
import {duration, short, time} from "./format.js";

const decimal = ["", "k", "M", "G", "T", "P", "E"], binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], small = ["", "m", "µ", "n"];
const maxDecimals = 10, maxUnit = 30; // characters of an unknown unit

function digits(v, decimals) {
  if (Number.isInteger(decimals)) return v.toFixed(Math.max(0, Math.min(decimals, maxDecimals)));
  return Math.abs(v) >= 1e6 ? String(Math.round(v)) : String(Number(v.toPrecision(4)));
}

// A prefix for each step; power: that of the value, such as 1 for kB.
const scaled = (unit, step, names, power = 0) => (v, decimals) => {
  let at = power;
  while (Math.abs(v) >= step && at < names.length - 1) { v /= step; at++; }
  while (Math.abs(v) < 1 && v !== 0 && at > 0) { v *= step; at--; }
  if (names === decimal && at === 0 && v !== 0 && Math.abs(v) < 0.1 && !/^[bBpo]/.test(unit)) {
    let down = 0;
    while (Math.abs(v) < 1 && down < small.length - 1) { v *= 1000; down++; }
    return `${digits(v, decimals)} ${small[down]}${unit}`;
  }
  return `${digits(v, decimals)} ${names[at]}${unit}`;
};
const si = (unit, power) => scaled(unit, 1000, decimal, power), iec = (unit, power) => scaled(unit, 1024, binary, power);

const times = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60], ["hours", 3600], ["days", 86400], ["weeks", 604800], ["years", 31536000]];
const timed = (seconds) => (v, decimals) => {
  const s = v * seconds, size = Math.abs(s), [name, one] = size === 0 ? times.find(([, t]) => t >= seconds) : [...times].reverse().find(([, t]) => size >= t) || times[0];
  return `${digits(s / one, decimals)} ${name}`;
};
const plain = (suffix) => (v, decimals) => digits(v, decimals) + suffix;
const rate = (suffix) => (v, decimals) => `${Number.isInteger(decimals) ? digits(v, decimals) : short(v)} ${suffix}`;
const money = (sign) => (v, decimals) => sign + (Number.isInteger(decimals) ? digits(v, decimals) : short(v));
const either = (yes, no) => (v) => v ? yes : no;

const units = new Map(Object.entries({
  none: plain(""), string: plain(""), short: (v, decimals) => Number.isInteger(decimals) && Math.abs(v) < 1e4 ? digits(v, decimals) : short(v), sishort: si(""),
  percent: plain("%"), percentunit: (v, decimals) => digits(v * 100, decimals) + "%", humidity: plain(" %H"),
  bytes: iec("B"), kbytes: iec("B", 1), mbytes: iec("B", 2), gbytes: iec("B", 3), tbytes: iec("B", 4), bits: iec("b"),
  decbytes: si("B"), deckbytes: si("B", 1), decmbytes: si("B", 2), decgbytes: si("B", 3), dectbytes: si("B", 4), decbits: si("b"),
  Bps: si("B/s"), KBs: si("B/s", 1), MBs: si("B/s", 2), GBs: si("B/s", 3), bps: si("b/s"), Kbits: si("b/s", 1), Mbits: si("b/s", 2), Gbits: si("b/s", 3),
  binBps: iec("B/s"), KiBs: iec("B/s", 1), MiBs: iec("B/s", 2), GiBs: iec("B/s", 3), binbps: iec("b/s"), Kibits: iec("b/s", 1), Mibits: iec("b/s", 2), Gibits: iec("b/s", 3),
  ns: timed(1e-9), "µs": timed(1e-6), us: timed(1e-6), ms: timed(1e-3), s: timed(1), m: timed(60), h: timed(3600), d: timed(86400),
  dtdurations: (v) => duration(v), dtdurationms: (v) => duration(v / 1000), clocks: (v) => duration(v), clockms: (v) => duration(v / 1000), timeticks: timed(0.01),
  pps: rate("p/s"), ops: rate("ops/s"), reqps: rate("req/s"), rps: rate("rd/s"), wps: rate("wr/s"), iops: rate("io/s"), cps: rate("c/s"), eps: rate("evt/s"), mps: rate("msg/s"), rowsps: rate("rows/s"),
  opm: rate("ops/m"), rpm: rate("rd/m"), wpm: rate("wr/m"), cpm: rate("c/m"), reqpm: rate("req/m"), rotrpm: rate("rpm"),
  hertz: si("Hz"), rothz: si("Hz"), watt: si("W"), kwatt: si("W", 1), mwatt: (v, decimals) => si("W")(v / 1000, decimals), watth: si("Wh"), kwatth: si("Wh", 1), joule: si("J"), volt: si("V"), amp: si("A"), flops: si("FLOP/s"),
  celsius: plain(" °C"), fahrenheit: plain(" °F"), kelvin: plain(" K"), dB: plain(" dB"), dBm: plain(" dBm"), degree: plain("°"),
  currencyUSD: money("$"), currencyEUR: money("€"), currencyGBP: money("£"), currencyJPY: money("¥"),
  bool: either("True", "False"), bool_yes_no: either("Yes", "No"), bool_on_off: either("On", "Off"),
  dateTimeAsIso: (v) => time(v / 1000), dateTimeAsUS: (v) => time(v / 1000), dateTimeAsSystem: (v) => time(v / 1000), dateTimeAsLocal: (v) => time(v / 1000), dateTimeFromNow: (v) => {
    const s = Date.now() / 1000 - v / 1000;
    return s < 0 ? `in ${duration(-s)}` : `${duration(s)} ago`;
  },
}));

// "suffix: req", "prefix:$", "si:B", "count:x", "currency:$", "time:…"
function custom(v, unit, decimals) {
  const [, kind, text] = /^(suffix|prefix|si|count|currency|time|bool):(.*)$/s.exec(unit) || [];
  const name = (text || "").slice(0, maxUnit);
  switch (kind) {
  case "prefix": case "currency": return name + digits(v, decimals);
  case "suffix": return `${digits(v, decimals)}${name}`;
  case "count": return `${short(v)}${name}`;
  case "si": return si(name)(v, decimals);
  case "time": return time(v / 1000);
  case "bool": return name.split("/")[v ? 0 : 1] ?? String(v);
  default: return `${digits(v, decimals)} ${unit.slice(0, maxUnit)}`;
  }
}

// Whether the prefixes of the unit are powers of 1024.
export const isBinary = (unit) => /^([kmgt]?bytes|bits|binB?ps|[KMG]i(Bs|bits))$/i.test(unit || "") && !/^dec/.test(unit);

// decimals: a number, or nothing for four significant digits.
export function withUnit(v, unit, decimals) {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (!Number.isFinite(v)) return v > 0 ? "+Inf" : "-Inf";
  if (!unit) return Number.isInteger(decimals) ? digits(v, decimals) : short(v);
  return units.has(unit) ? units.get(unit)(v, decimals).trim() : custom(v, unit, decimals);
}
