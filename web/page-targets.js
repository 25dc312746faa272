// SPDX-License-Identifier: Apache-2.0
// Scrape targets with the state of their last scrape.
import {get} from "./api.js";
import {badge, empty, h, labelList, table} from "./dom.js";
import {ago, count, duration} from "./format.js";
import {filterBar, fold, liveView} from "./view.js";

export const title = "Targets";

// A link only to what a browser should open: a scrape address comes from service discovery.
export const urlNode = (url) => /^https?:\/\//.test(url) ? h("a", {class: "mono", href: url, rel: "noreferrer"}, url) : h("span", {class: "mono"}, url);

export function start(main) {
  const bar = filterBar([{value: "up"}, {value: "down"}, {value: "unknown"}], "Filter by address or label", () => redraw());
  main.append(bar.node);

  const row = (t) => [
    [urlNode(t.scrapeUrl), t.lastError && h("div", {class: "error-text"}, t.lastError)], badge(t.health, t.health), labelList(t.labels),
    h("span", {title: t.lastScrape}, ago(t.lastScrape)), duration(t.lastScrapeDuration), `${t.scrapeInterval}`];

  const redraw = liveView(main, () => get("targets", {state: "active"}), ({activeTargets}) => {
    for (const state of ["up", "down", "unknown"]) bar.countIs(state, activeTargets.filter((t) => t.health === state).length);
    if (!activeTargets.length) return empty("No targets are configured.");
    const pools = new Map();
    for (const t of activeTargets) {
      if (!pools.has(t.scrapePool)) pools.set(t.scrapePool, []);
      pools.get(t.scrapePool).push(t);
    }
    const shown = [...pools].sort(([a], [b]) => a < b ? -1 : 1).map(([name, all]) => ({name, all,
      some: all.filter((t) => bar.has(t.health) && bar.matches(t.scrapeUrl, JSON.stringify(t.labels), t.lastError))})).filter((p) => p.some.length);
    return shown.length ? shown.map(({name, all, some}) => {
      const up = all.filter((t) => t.health === "up").length;
      return h("section", {class: "group-box"}, fold("pool " + name, true,
        [h("b", null, name), h("span", {class: up === all.length ? "count" : "count bad"}, `${count(up)} of ${count(all.length)} up`)],
        table([{name: "Endpoint", class: "wide"}, "State", {name: "Labels", class: "wide"}, "Last scrape", "Duration", "Interval"], some.map(row))));
    }) : empty("No target matches the filter.");
  });
}
