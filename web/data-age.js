// SPDX-License-Identifier: Apache-2.0
// How old the oldest samples are: a chart of a longer time would be empty at its left.
import {get} from "./api.js";

let known = null;

// Seconds; NaN: not known. Read once per page.
export function dataAge() {
  known ||= get("status/tsdb", {limit: 1}).then(({headStats}) => {
    const age = (Date.now() - headStats.minTime) / 1000;
    return age > 0 && headStats.minTime > 0 ? age : NaN;
  }).catch(() => NaN);
  return known;
}

// The smallest of the ranges (ascending seconds) that shows most of the data, but none above `most`.
export function rangeFor(age, ranges, most) {
  const fit = ranges.filter((r) => r <= most);
  return fit.find((r) => r >= 0.8 * age) ?? fit[fit.length - 1];
}
