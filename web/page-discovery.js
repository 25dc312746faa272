// SPDX-License-Identifier: Apache-2.0
// What service discovery has found, and what relabeling made of it.
import {get} from "./api.js";
import {badge, empty, h, labelList, table} from "./dom.js";
import {count} from "./format.js";
import {filterBar, fold, liveView} from "./view.js";

export const title = "Service discovery";

const rowsAtOnce = 200;

export function start(main) {
  const bar = filterBar([{value: "active"}, {value: "dropped"}], "Filter by label", () => redraw());
  main.append(bar.node);

  const redraw = liveView(main, () => get("targets"), (data) => {
    const all = [...data.activeTargets.map((t) => ({pool: t.scrapePool, state: "active", found: t.discoveredLabels, labels: t.labels})),
      ...data.droppedTargets.map((t) => ({pool: t.scrapePool || t.discoveredLabels.job || "", state: "dropped", found: t.discoveredLabels, labels: null}))];
    for (const state of ["active", "dropped"]) bar.countIs(state, all.filter((t) => t.state === state).length);
    if (!all.length) return empty("No scrape configuration has found a target.");
    const some = all.filter((t) => bar.has(t.state) && bar.matches(JSON.stringify(t.found), JSON.stringify(t.labels)));
    const pools = [...new Set(some.map((t) => t.pool))].sort();
    return pools.length ? pools.map((name) => {
      const targets = some.filter((t) => t.pool === name), active = targets.filter((t) => t.state === "active").length;
      return h("section", {class: "group-box"}, fold("pool " + name, true,
        [h("b", null, name), h("span", {class: "count"}, `${count(active)} of ${count(targets.length)} active`)],
        table([{name: "Discovered labels", class: "wide"}, {name: "Target labels", class: "wide"}], targets.slice(0, rowsAtOnce).map((t) =>
          [labelList(t.found), t.labels ? labelList(t.labels) : badge("dropped", "dropped")])),
        targets.length > rowsAtOnce && empty(`The first ${rowsAtOnce} of ${count(targets.length)} targets are shown. Use the filter.`)));
    }) : empty("No target matches the filter.");
  }, 5000);
}
