// SPDX-License-Identifier: Apache-2.0
// Range queries that are repeated while time goes on: only the new part is read.
import {get} from "./api.js";

const again = 30; // seconds that are read again: samples can arrive late

export class Ranges {
  constructor() { this.known = new Map(); }

  // Forgets the results that were not read since the last call.
  next() {
    this.old = this.known;
    this.known = new Map();
  }

  // [{metric, values: [[seconds, "text"], …]}] at multiples of the step, from start to end.
  async read(query, start, end, step) {
    const known = this.known.get(query) || this.old?.get(query);
    const part = known && known.step === step && known.start <= start && known.end >= start && known.end <= end;
    const from = part ? Math.max(start, known.end - Math.ceil(again / step) * step) : start;
    const {result} = await get("query_range", {query, start: from, end, step});
    if (!part) {
      this.known.set(query, {step, start, end, result});
      return result;
    }
    const series = new Map(known.result.map((s) => [JSON.stringify(s.metric), {metric: s.metric, values: s.values.filter(([t]) => t >= start && t < from)}]));
    for (const s of result) {
      const key = JSON.stringify(s.metric), before = series.get(key);
      if (before) before.values.push(...s.values);
      else series.set(key, s);
    }
    const merged = [...series.values()].filter((s) => s.values.length);
    this.known.set(query, {step, start, end, result: merged});
    return merged;
  }
}

// One line of several series, such as those of a GPU whose pod changes: the largest value of each time.
export function joined(all) {
  if (all.length <= 1) return all.length ? all[0].values : [];
  const at = new Map();
  for (const {values} of all)
    for (const [t, v] of values) if (!at.has(t) || Number(v) > Number(at.get(t))) at.set(t, v);
  return [...at].sort((a, b) => a[0] - b[0]);
}

// The times in which a series has samples (wanted(value)): [[from, to], …].
export function spans(values, step, wanted = () => true) {
  const found = [];
  for (const [t, v] of values) {
    if (!wanted(Number(v))) continue;
    const last = found[found.length - 1];
    if (last && t - last[1] <= step) last[1] = t;
    else found.push([t, t]);
  }
  return found.map(([a, b]) => [a, b + step]);
}
