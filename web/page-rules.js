// SPDX-License-Identifier: Apache-2.0
// All rules with their health.
import {get} from "./api.js";
import {badge, empty, h, labelList, notice, table} from "./dom.js";
import {ago, duration} from "./format.js";
import {graphLink} from "./page-alerts.js";
import {filterBar, liveView} from "./view.js";

export const title = "Rules";

const healthOf = (rule) => ({ok: "ok", err: "err"})[rule.health] || "unknown";

export function start(main) {
  const bar = filterBar([{value: "ok"}, {value: "err", text: "error"}, {value: "unknown"}], "Filter by name or expression", () => redraw());
  main.append(bar.node);

  const row = (rule) => [
    [h("div", null, h("b", null, rule.name), " ", h("span", {class: "muted"}, rule.type)), labelList(rule.labels),
      h("a", {class: "expr", href: graphLink(rule.query)}, rule.query), rule.lastError && notice("error", rule.lastError)],
    badge(healthOf(rule), rule.health), ago(rule.lastEvaluation), duration(rule.evaluationTime)];

  const redraw = liveView(main, () => get("rules"), (data) => {
    const rules = data.groups.flatMap((g) => g.rules);
    for (const state of ["ok", "err", "unknown"]) bar.countIs(state, rules.filter((r) => healthOf(r) === state).length);
    if (!rules.length) return empty("No rules are configured.");
    const groups = data.groups.map((g) => ({...g, rules: g.rules.filter((r) => bar.has(healthOf(r)) && bar.matches(r.name, r.query))})).filter((g) => g.rules.length);
    return groups.length ? groups.map((g) => h("section", {class: "group-box"},
      h("h2", null, g.name, h("span", {class: "file"}, g.file), h("span", {class: "facts"}, `every ${duration(g.interval)} · last evaluation ${ago(g.lastEvaluation)} in ${duration(g.evaluationTime)}`)),
      table([{name: "Rule", class: "wide"}, "Health", "Last evaluation", "Duration"], g.rules.map(row)))) : empty("No rule matches the filter.");
  });
}
