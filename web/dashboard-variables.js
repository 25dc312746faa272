// SPDX-License-Identifier: Apache-2.0
// Variables of a dashboard: their options from the engine, what the reader has selected, and their places in texts.
import {get} from "./api.js";
import {limits} from "./dashboard-model.js";
import {duration, parseDuration, series} from "./format.js";
import {matchTexts} from "./text-match.js";

export const all = "$__all";
const maxResult = 100000, scrapeSeconds = 15; // Prometheus' data source of Grafana assumes this interval
const reference = /\$(\w+)|\[\[(\w+)(?::(\w+))?\]\]|\$\{(\w+)(?:\.[\w.]+)?(?::([^}]{0,60}))?\}/g;

// --- values in texts ---

const escapedForPromql = (v) => v.replace(/\\/g, "\\\\").replace(/"/g, '\\"');
const escapedForRegex = (v) => v.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
// Inside a string of PromQL: a backslash is written twice.
const escapedForSelector = (v) => escapedForPromql(v.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
const anyOf = (values) => values.length === 1 ? values[0] : `(${values.join("|")})`;

const formats = new Map(Object.entries({
  regex: (values) => anyOf(values.map(escapedForRegex)), pipe: (values) => values.join("|"), csv: (values) => values.join(","), raw: (values) => values.join(","), text: (values) => values.join(" + "),
  glob: (values) => values.length > 1 ? `{${values.join(",")}}` : values.join(""), json: (values) => JSON.stringify(values.length > 1 ? values : values[0] ?? ""),
  doublequote: (values) => values.map((v) => `"${v.replace(/"/g, '\\"')}"`).join(","), singlequote: (values) => values.map((v) => `'${v.replace(/'/g, "\\'")}'`).join(","), sqlstring: (values) => values.map((v) => `'${v.replace(/'/g, "''")}'`).join(","),
  percentencode: (values) => encodeURIComponent(formats.get("glob")(values)), distributed: (values) => values.join(","), lucene: (values) => values.join(" OR "),
}));

// In a query, several values become alternatives of a regular expression.
function ofQuery(v, values) {
  return v.multi || v.includeAll ? anyOf(values.map(escapedForSelector)) : escapedForPromql(values[0] ?? "");
}

const optionOf = (value) => ({text: value, value});

// $__interval and others of the time range: seconds.
export function timeValues(start, end, step) {
  const range = Math.max(1, Math.round(end - start)), rate = Math.max(step + scrapeSeconds, 4 * scrapeSeconds);
  return new Map(Object.entries({__interval: duration(step), __interval_ms: String(step * 1000), __rate_interval: duration(rate), __rate_interval_ms: String(rate * 1000), __range: `${range}s`, __range_s: String(range),
    __range_ms: String(range * 1000), __from: String(Math.round(start * 1000)), __to: String(Math.round(end * 1000))}));
}

export class Variables {
  // params: of the address, with var-NAME.
  constructor(list, params) {
    this.list = list.map((v) => ({...v, selected: params.has(`var-${v.name}`) ? params.getAll(`var-${v.name}`).slice(0, limits.values) : v.current}));
    this.byName = new Map(this.list.map((v) => [v.name, v]));
  }

  // The selected values; all of them for "All".
  valuesOf(v) {
    return v.selected.includes(all) ? v.options.map((o) => o.value) : v.selected;
  }

  // extra: values with a higher priority, such as timeValues(). query: PromQL.
  replace(text, extra = new Map(), query = false) {
    let size = 0;
    const out = text.replace(reference, (match, a, b, formatB, c, formatC) => {
      const name = a || b || c, format = formatB || formatC, v = this.byName.get(name);
      let found = match;
      if (extra.has(name)) found = query && !name.startsWith("__") ? escapedForSelector(extra.get(name)) : extra.get(name);
      else if (v && v.selected.includes(all) && v.allValue && (query || format === "regex")) found = v.allValue;
      else if (v) found = format === "text" && v.selected.includes(all) ? "All" : (formats.get(format) || (query ? (values) => ofQuery(v, values) : formats.get("text")))(this.valuesOf(v));
      size += found.length;
      return size > maxResult ? "" : found;
    });
    if (size > maxResult) throw new Error(`With the values of its variables, a text has more than ${maxResult} characters.`);
    return out;
  }

  names(text) {
    return [...text.matchAll(reference)].map((m) => m[1] || m[2] || m[4]);
  }

  // Those that others refer to come first. A circle ends where it began.
  ordered() {
    const out = new Set(), open = new Set();
    const add = (v) => {
      if (out.has(v) || open.has(v)) return;
      open.add(v);
      for (const name of this.names(v.query + v.regex)) if (this.byName.has(name)) add(this.byName.get(name));
      out.add(v);
    };
    this.list.forEach(add);
    return [...out];
  }

  // Reads the options of all variables. The error of a variable stays with it.
  async load(start, end, signal) {
    for (const v of this.ordered()) {
      v.error = "";
      try {
        v.options = await this.optionsOf(v, start, end, signal);
      } catch (error) {
        if (error.name === "AbortError") throw error;
        v.options = [];
        v.error = error.message;
      }
      this.settle(v);
    }
  }

  // A selection that is not an option becomes the first one.
  settle(v) {
    if (v.type === "textbox" || v.type === "constant") {
      v.selected = [v.selected[0] ?? v.options[0]?.value ?? ""];
      return;
    }
    const known = new Set(v.options.map((o) => o.value)), kept = v.selected.filter((value) => known.has(value) || (value === all && v.includeAll));
    if (kept.includes(all)) v.selected = [all];
    else if (kept.length) v.selected = v.multi ? kept : kept.slice(0, 1);
    else v.selected = v.includeAll && !(v.options.length === 1 && !v.allValue) ? [all] : v.options.length ? [v.options[0].value] : [];
  }

  async optionsOf(v, start, end, signal) {
    switch (v.type) {
    case "query": return v.foreign ? Promise.reject(new Error(`Its data source “${v.foreign}” is not Prometheus.`)) : this.queried(v, start, end, signal);
    case "custom": return v.query.split(/(?<!\\),/).slice(0, limits.values).map((t) => t.replace(/\\,/g, ",").trim()).filter((t) => t).map((t) => {
      const [, text, value] = /^(.*?)\s+:\s+(.*)$/.exec(t) || [];
      return value === undefined ? optionOf(t) : {text, value};
    });
    case "interval": {
      const values = v.query.split(",").slice(0, limits.values).map((t) => t.trim().replace(/^["']|["']$/g, "")).filter((t) => t && t !== "auto");
      return [...(v.auto ? [{text: "auto", value: duration(Math.max(Math.ceil((end - start) / v.autoCount), parseDuration(v.autoMin) || 10))}] : []), ...values.map(optionOf)];
    }
    case "datasource": return [{text: "this engine", value: "engine"}];
    case "textbox": case "constant": return [optionOf(v.query)];
    default: return v.options;
    }
  }

  async queried(v, start, end, signal) {
    const query = this.replace(v.query, timeValues(start, end, 60), true).trim(), times = {start: Math.floor(start), end: Math.ceil(end)};
    let texts;
    const values = /^label_values\((?:([^]*),)?\s*([a-zA-Z_]\w*)\s*\)$/.exec(query), result = /^query_result\(([^]*)\)$/.exec(query), metrics = /^metrics\(([^]*)\)$/.exec(query), names = /^label_names\(([^]*)\)$/.exec(query);
    if (values) texts = await get(`label/${values[2]}/values`, {...(values[1]?.trim() ? {"match[]": values[1].trim()} : {}), ...times, limit: limits.values}, signal);
    else if (names) texts = await get("labels", {...(names[1].trim() ? {"match[]": names[1].trim()} : {}), ...times, limit: limits.values}, signal);
    else if (metrics) {
      const found = await get("label/__name__/values", {...times}, signal), kept = await matchTexts(`/${metrics[1]}/`, found);
      texts = found.filter((_, i) => kept[i]);
    } else if (result) {
      const data = await get("query", {query: result[1], time: end}, signal);
      texts = data.resultType === "vector" ? data.result.slice(0, limits.values).map((s) => `${series(s.metric)} ${s.value[1]} ${Math.round(s.value[0] * 1000)}`) : [String(data.result[1] ?? "")];
    } else if (query) texts = (await get("series", {"match[]": query, ...times, limit: limits.values}, signal)).map(series);
    else texts = [];
    return this.sorted(v, await this.matched(v, texts.slice(0, limits.values)));
  }

  // The regular expression of the variable selects texts, or parts of them.
  async matched(v, texts) {
    let found = texts.map(optionOf);
    if (v.regex) {
      const matches = await matchTexts(this.replace(v.regex), texts);
      found = texts.flatMap((t, i) => {
        const m = matches[i];
        return !m ? [] : m.value !== undefined || m.text !== undefined ? [{text: m.text ?? m.value, value: m.value ?? m.text}] : [optionOf(m.first ?? t)];
      });
    }
    return [...new Map(found.map((o) => [o.value, o])).values()];
  }

  sorted(v, options) {
    const collator = new Intl.Collator("en", {numeric: v.sort >= 7, sensitivity: v.sort >= 5 ? "base" : "variant"}), number = (o) => Number(/-?\d+(\.\d+)?/.exec(o.text)?.[0] ?? Infinity);
    if (!v.sort) return options;
    options.sort((a, b) => v.sort === 3 || v.sort === 4 ? number(a) - number(b) : collator.compare(a.text, b.text));
    return v.sort % 2 ? options : options.reverse();
  }

  // var-NAME=VALUE of the address.
  addTo(params) {
    for (const v of this.list) if (!v.hidden || params.has(`var-${v.name}`)) v.selected.forEach((value) => params.append(`var-${v.name}`, value));
  }
}
