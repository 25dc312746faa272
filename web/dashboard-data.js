// SPDX-License-Identifier: Apache-2.0
// What the panels of a dashboard show: results of queries, their names and looks, values of series, and the
// transformations of tables.
import {getAll} from "./api.js";
import {at, listOf, own, textOf} from "./dashboard-model.js";
import {number, parseDuration, series as seriesText} from "./format.js";
import {matchTexts} from "./text-match.js";
import {timeValues} from "./dashboard-variables.js";
import {withUnit} from "./units.js";

export const maxSeries = 100, maxRows = 1000;
const points = 240;
const steps = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800];

export const stepOf = (range, least) => steps.find((s) => s >= range / points && s >= least) || Math.max(Math.ceil(range / points), least);

// --- queries ---

// The expressions of a panel with the values of its variables: [{...target, expr, step}].
export function queriesOf(panel, variables, scope, range) {
  return panel.targets.filter((t) => t.expr).map((t) => {
    const times = (step) => new Map([...timeValues(range.start, range.end, step), ...scope]);
    const wanted = variables.replace(t.interval || panel.interval, times(15)).replace(/^>\s*/, ""), step = stepOf(range.end - range.start, Math.max(1, Math.ceil(parseDuration(wanted) || 0)));
    return {...t, step, expr: variables.replace(t.expr, times(step), true)};
  });
}

// [{refId, target, metric, values: [[seconds, "text"], …]}], and notes about what is missing.
export async function readQueries(queries, range, signal) {
  const found = await Promise.all(queries.filter((q) => !q.hide).map(async (q) => {
    const start = Math.floor(range.start / q.step) * q.step, end = Math.floor(range.end / q.step) * q.step;
    const {data, warnings} = await getAll(q.instant ? "query" : "query_range", q.instant ? {query: q.expr, time: range.end} : {query: q.expr, start, end, step: q.step}, signal);
    const result = data.resultType === "scalar" || data.resultType === "string" ? [{metric: {}, value: data.result}] : data.result;
    return {warnings, n: result.length, list: result.slice(0, maxSeries * 5).map((s) => ({refId: q.refId, target: q, metric: s.metric, values: s.values || (s.value ? [s.value] : [])})), start, end, step: q.step};
  }));
  return {series: found.flatMap((f) => f.list), notes: [...new Set(found.flatMap((f) => f.warnings || []))].slice(0, 5), cut: found.some((f) => f.n > f.list.length),
    start: Math.min(...found.map((f) => f.start)), end: Math.max(...found.map((f) => f.end)), step: Math.max(1, ...found.map((f) => f.step))};
}

// --- names ---

const byName = new Intl.Collator("en", {numeric: true});

// The labels in which series differ.
function varying(list) {
  const names = new Set(list.flatMap((s) => Object.keys(s.metric)));
  return [...names].filter((name) => list.some((s) => own(s.metric, name) !== own(list[0].metric, name)));
}

const legendText = (format, metric) => format.replace(/\{\{\s*([\w:.]+)\s*\}\}/g, (_, name) => own(metric, name) ?? "");

export function nameSeries(list, replace) {
  const differing = varying(list);
  for (const s of list) {
    const format = s.target.legend;
    if (format && format !== "__auto") s.name = legendText(replace(format), s.metric);
    else if (differing.length === 1 && own(s.metric, differing[0])) s.name = own(s.metric, differing[0]);
    else if (!differing.length) s.name = own(s.metric, "__name__") || (Object.keys(s.metric).length ? seriesText(s.metric) : s.target.expr.slice(0, 200));
    else s.name = seriesText(Object.fromEntries(Object.entries(s.metric).filter(([name]) => differing.includes(name))));
    if (!s.name.trim()) s.name = Object.keys(s.metric).length ? seriesText(s.metric) : "Value";
  }
  // Instant queries keep their order, which sort() and topk() have chosen.
  const order = new Map(list.map((s) => s.target).filter((t, i, all) => all.indexOf(t) === i).map((t, i) => [t, i]));
  list.sort((a, b) => order.get(a.target) - order.get(b.target) || (a.target.instant ? 0 : byName.compare(a.name, b.name)));
}

// --- looks ---

// Sets .look of each field {name, refId, number}: the defaults of the panel with all overrides that match.
export async function setLooks(field, fields) {
  const names = fields.map((f) => f.name), matches = await Promise.all(field.overrides.map((o) => o.id === "byRegexp" ? matchTexts(textOf(o.options, 1000), names) : null));
  fields.forEach((f, i) => {
    const applies = (o, k) => {
      switch (o.id) {
      case "byName": return f.name === o.options || f.column === o.options;
      case "byRegexp": return Boolean(matches[k][i]);
      case "byFrameRefID": return f.refId === o.options;
      case "byType": return (f.number ? "number" : f.time ? "time" : "string") === o.options;
      case "byNames": return listOf(own(o.options, "names"), 1000).includes(f.name) !== (own(o.options, "mode") === "exclude");
      default: return false;
      }
    };
    f.look = Object.assign({}, field.defaults, ...field.overrides.filter(applies).map((o) => o.look));
    if (f.look.displayName) f.name = f.look.displayName.replace(/\$\{__field\.labels\.(\w+)\}/g, (_, l) => own(f.metric, l) ?? "").replace(/\$\{__(?:field\.name|series\.name)\}/g, f.name);
  });
}

const palette = {green: "#3f9e6e", red: "#d8553a", orange: "#e08a1e", yellow: "#c9a915", blue: "#3b82d6", purple: "#7a6ff0", gray: "#8a8f98", grey: "#8a8f98", white: "#d4dae2", black: "#4a5563", pink: "#c65fa5"};

// A color for elements, or null: that of the text.
export function colorOf(name) {
  if (/^#[0-9a-f]{3,8}$/i.test(name) || /^rgba?\([\d\s.,%]{5,40}\)$/.test(name)) return name;
  return own(palette, String(name).replace(/^(super-light|semi-dark|light|dark)-/, "")) || null;
}

// Whether a text on this color must be dark; undefined: not a color.
export function isLight(color) {
  const hex = /^#([0-9a-f]{6}|[0-9a-f]{3})/i.exec(color || ""), parts = hex ? (hex[1].length === 3 ? hex[1].replace(/./g, "$&$&") : hex[1]).match(/../g).map((p) => parseInt(p, 16)) : (/^rgba?\((.*)\)$/.exec(color || "")?.[1].split(/[\s,]+/) || []).slice(0, 3).map(Number);
  return parts.length === 3 ? 0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2] > 170 : undefined;
}

// The mapping of a value: {text, color}, or null.
function mappingOf(v, mappings = []) {
  for (const m of mappings) {
    if (m.kind === "values" && m.values.has(String(v))) return m.values.get(String(v));
    if (m.kind === "range" && typeof v === "number" && v >= m.from && v <= m.to) return m;
    if (m.kind === "special" && ((v === null && /null|empty/.test(m.match)) || (Number.isNaN(v) && m.match.includes("nan")))) return m;
  }
  return null;
}

const thresholdColor = (v, {thresholds, min, max}) => {
  const list = thresholds?.steps || [], p = thresholds?.percentage ? 100 * (v - (min ?? 0)) / ((max ?? 100) - (min ?? 0)) : v;
  return colorOf([...list].reverse().find((s) => p >= s.value)?.color || "");
};

// A value as a text, with a color if the look sets one. usual: the mode of the color if the look has none.
export function shown(v, look, usual = "") {
  const mapped = mappingOf(v, look.mappings), mode = look.color?.mode || usual;
  const color = mapped?.color ? colorOf(mapped.color) : mode === "fixed" ? colorOf(look.color.fixed) : typeof v === "number" && (mode === "thresholds" || mode.startsWith("continuous")) ? thresholdColor(v, look) : null;
  if (mapped?.text) return {text: mapped.text, color};
  if (v === null || v === undefined) return {text: look.noValue || "no data", color};
  return {text: typeof v === "number" ? withUnit(v, look.unit, look.decimals) : String(v), color};
}

// --- one value of a series ---

const sum = (all) => all.reduce((a, b) => a + b, 0);
const reducers = new Map(Object.entries({
  lastNotNull: (v) => v[v.length - 1], last: (v) => v[v.length - 1], firstNotNull: (v) => v[0], first: (v) => v[0], mean: (v) => sum(v) / v.length, sum, count: (v) => v.length, min: (v) => v.reduce((a, b) => Math.min(a, b)),
  max: (v) => v.reduce((a, b) => Math.max(a, b)), range: (v) => v.reduce((a, b) => Math.max(a, b)) - v.reduce((a, b) => Math.min(a, b)), diff: (v) => v[v.length - 1] - v[0], distinctCount: (v) => new Set(v).size, changeCount: (v) => v.filter((x, i) => i && x !== v[i - 1]).length,
  delta: (v) => v.reduce((d, x, i) => i ? d + (x < v[i - 1] ? x : x - v[i - 1]) : 0, 0), median: (v) => { const s = [...v].sort((a, b) => a - b); return (s[(s.length - 1) >> 1] + s[s.length >> 1]) / 2; },
  stdDev: (v) => Math.sqrt(sum(v.map((x) => (x - sum(v) / v.length) ** 2)) / v.length), variance: (v) => sum(v.map((x) => (x - sum(v) / v.length) ** 2)) / v.length,
  diffperc: (v) => (v[v.length - 1] - v[0]) / v[0], allIsZero: (v) => Number(v.every((x) => x === 0)),
}));
export const calcNames = {lastNotNull: "last", last: "last", firstNotNull: "first", mean: "mean", sum: "total"};
// null: no samples.
export function reduced(values, calc) {
  const finite = values.map(([, v]) => number(v)).filter((v) => !Number.isNaN(v));
  return finite.length ? (reducers.get(calc) || reducers.get("lastNotNull"))(finite) : null;
}

// --- tables ---
// A frame is a list of fields {name, refId, number, time, values}; all values lists are equally long.

export function framesOf(list) {
  const targets = [...new Set(list.map((s) => s.target))];
  return targets.map((target) => {
    const mine = list.filter((s) => s.target === target), labels = [...new Set(mine.flatMap((s) => Object.keys(s.metric)))].sort();
    const rows = mine.flatMap((s) => s.values.map(([t, v]) => ({t, v: number(v), metric: s.metric}))).slice(0, maxRows);
    return [{name: "Time", time: true, refId: target.refId, values: rows.map((r) => r.t * 1000)}, ...labels.map((name) => ({name, refId: target.refId, values: rows.map((r) => own(r.metric, name) ?? "")})),
      {name: targets.length > 1 ? `Value #${target.refId}` : "Value", refId: target.refId, number: true, values: rows.map((r) => r.v)}];
  });
}

const find = (frame, name) => frame.find((f) => f.name === name);
const takeRows = (frame, rows) => frame.map((f) => ({...f, values: rows.map((i) => f.values[i])}));
const indexes = (frame) => (frame[0]?.values || []).map((_, i) => i);

// Names that several frames have get a number, as in Grafana.
function numbered(fields) {
  const count = new Map(), seen = new Map();
  for (const f of fields) count.set(f.name, (count.get(f.name) || 0) + 1);
  return fields.map((f) => {
    if (count.get(f.name) === 1) return f;
    seen.set(f.name, (seen.get(f.name) || 0) + 1);
    return {...f, name: `${f.name} ${seen.get(f.name)}`};
  });
}

function join(frames, by, inner) {
  const having = frames.filter((frame) => find(frame, by));
  if (!having.length) return frames;
  const keys = [...new Set(having.flatMap((frame) => find(frame, by).values))].filter((key) => !inner || having.every((frame) => find(frame, by).values.includes(key))).slice(0, maxRows);
  const others = having.flatMap((frame) => {
    const rows = new Map(find(frame, by).values.map((key, i) => [key, i]));
    return frame.filter((f) => f.name !== by).map((f) => ({...f, values: keys.map((key) => rows.has(key) ? f.values[rows.get(key)] : null)}));
  });
  return [[{...find(having[0], by), values: keys}, ...numbered(others)]];
}

// Rows with equal values in the columns that all frames have become one row.
function merge(frames) {
  if (frames.length < 2) return frames;
  const names = [...new Set(frames.flatMap((frame) => frame.map((f) => f.name)))], shared = names.filter((name) => frames.every((frame) => find(frame, name)) && !/^Value/.test(name)), rows = new Map();
  frames.forEach((frame, k) => indexes(frame).forEach((i) => {
    const key = shared.length ? JSON.stringify(shared.map((name) => find(frame, name).values[i])) : `${k} ${i}`;
    if (!rows.has(key)) rows.set(key, new Map());
    for (const f of frame) rows.get(key).set(f.name, f.values[i]);
  }));
  const merged = [...rows.values()].slice(0, maxRows);
  return [names.map((name) => ({...frames.map((frame) => find(frame, name)).find((f) => f), values: merged.map((r) => r.get(name) ?? null)}))];
}

// Times of any number are left out together: a query without a result has no time.
const isTime = (name) => /^Time( \d+)?$/.test(name);

function organize(frame, o) {
  const excluded = own(o, "excludeByName"), timeless = Object.entries(excluded || {}).some(([name, on]) => on === true && isTime(name)), renamed = own(o, "renameByName"), order = own(o, "indexByName"), included = own(o, "includeByName");
  const some = included && Object.values(included).some((v) => v === true);
  const kept = frame.filter((f) => own(excluded, f.name) !== true && !(timeless && f.time && isTime(f.name)) && (!some || own(included, f.name) === true)), index = (f) => Number(own(order, f.name) ?? Infinity);
  return kept.map((f, i) => [f, i]).sort(([a, i], [b, k]) => index(a) === index(b) ? i - k : index(a) - index(b)).map(([f]) => ({...f, column: f.name, name: textOf(own(renamed, f.name), 500) || f.name}));
}

const operations = {"+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "%": (a, b) => a % b};
function calculate(frame, o) {
  const mode = own(o, "mode") || "reduceRow", rows = indexes(frame);
  let values, name;
  if (mode === "binary") {
    const [left, right] = ["left", "right"].map((side) => { const v = at(o, "binary", side); return textOf(at(v, "matcher", "options") ?? own(v, "fixed") ?? v, 500); }), operator = textOf(at(o, "binary", "operator"), 3) || "+", f = own(operations, operator);
    const value = (side, i) => { const column = find(frame, side); return column ? column.values[i] : Number(side); };
    if (!f) return null;
    values = rows.map((i) => { const [a, b] = [value(left, i), value(right, i)]; return a === null || b === null ? null : f(a, b); });
    name = `${left} ${operator} ${right}`;
  } else if (mode === "reduceRow") {
    const include = listOf(at(o, "reduce", "include"), 100), calc = textOf(at(o, "reduce", "reducer"), 30) || "sum", used = frame.filter((f) => f.number && (!include.length || include.includes(f.name)));
    values = rows.map((i) => reduced(used.map((f) => [0, f.values[i]]).filter(([, v]) => v !== null), calc));
    name = calc;
  } else {
    return null;
  }
  const field = {name: textOf(own(o, "alias"), 500) || name, number: true, refId: frame[0]?.refId, values};
  return own(o, "replaceFields") === true ? [field] : [...frame, field];
}

function groupBy(frame, o) {
  const rules = frame.map((f) => ({f, rule: at(o, "fields", f.name)})), keys = rules.filter(({rule}) => own(rule, "operation") === "groupby").map(({f}) => f), groups = new Map();
  indexes(frame).forEach((i) => {
    const key = JSON.stringify(keys.map((f) => f.values[i]));
    groups.set(key, [...(groups.get(key) || []), i]);
  });
  const all = [...groups.values()];
  return [...keys.map((f) => ({...f, values: all.map((rows) => f.values[rows[0]])})), ...rules.filter(({rule}) => own(rule, "operation") === "aggregate").flatMap(({f, rule}) =>
    listOf(own(rule, "aggregations"), 10).map((calc) => ({...f, number: true, time: false, name: `${f.name} (${textOf(calc, 30)})`, values: all.map((rows) => f.number || f.time ? reduced(rows.map((i) => [0, f.values[i]]), textOf(calc, 30)) : calc === "count" ? rows.length : f.values[rows[rows.length - 1]])})))];
}

const compare = (a, b) => a === b ? 0 : a === null ? -1 : b === null ? 1 : typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1;
export function sortRows(frame, name, desc) {
  const f = find(frame, name) || frame.find((g) => g.column === name);
  return f ? takeRows(frame, indexes(frame).sort((a, b) => (desc ? -1 : 1) * compare(f.values[a], f.values[b]))) : frame;
}

async function filtered(frame, o) {
  const names = frame.map((f) => f.name), pattern = (side) => textOf(at(o, side, "pattern"), 1000), lists = (side) => listOf(at(o, side, "names"), 1000);
  const [inside, outside] = await Promise.all(["include", "exclude"].map((side) => pattern(side) ? matchTexts(`/${pattern(side)}/`, names) : null));
  const hit = (side, found, f, i) => lists(side).includes(f.name) || Boolean(found?.[i]), has = (side) => lists(side).length > 0 || pattern(side) !== "";
  return frame.filter((f, i) => (!has("include") || hit("include", inside, f, i)) && !hit("exclude", outside, f, i));
}

async function renamed(frame, o) {
  const found = await matchTexts(`/${textOf(own(o, "regex"), 1000)}/`, frame.map((f) => f.name)), to = textOf(own(o, "renamePattern"), 500);
  return frame.map((f, i) => found[i] ? {...f, column: f.name, name: f.name.replace(found[i].all, () => to.replace(/\$1/g, found[i].first ?? ""))} : f);
}

// {frame, unknown}: one frame, and the transformations that are not applied.
export async function transformed(frames, transformations) {
  const unknown = [];
  for (const {id, options: o} of transformations) {
    const each = async (f) => { frames = await Promise.all(frames.map(async (frame) => (await f(frame)) || (unknown.push(id), frame))); };
    switch (id) {
    case "merge": frames = merge(frames); break;
    case "joinByField": case "seriesToColumns": frames = join(frames, textOf(own(o, "byField"), 500) || "Time", own(o, "mode") === "inner"); break;
    case "organize": await each((f) => organize(f, o)); break;
    case "calculateField": await each((f) => calculate(f, o)); break;
    case "groupBy": await each((f) => groupBy(f, o)); break;
    case "sortBy": await each((f) => sortRows(f, textOf(at(listOf(own(o, "sort"), 1)[0], "field"), 500), at(listOf(own(o, "sort"), 1)[0], "desc") === true)); break;
    case "filterFieldsByName": await each((f) => filtered(f, o)); break;
    case "renameByRegex": await each((f) => renamed(f, o)); break;
    case "limit": await each((f) => takeRows(f, indexes(f).slice(0, Math.max(0, Number(own(o, "limitField")) || 10)))); break;
    case "labelsToFields": break; // labels are columns already
    case "filterByRefId": frames = frames.filter((f) => textOf(at(o, "options")).split("|").includes(f[0]?.refId)); break;
    default: unknown.push(id);
    }
  }
  return {frame: merge(frames)[0] || [], unknown: [...new Set(unknown)]};
}

