// SPDX-License-Identifier: Apache-2.0
// Alerting rules with their active alerts.
import {get} from "./api.js";
import {badge, empty, h, labelList, notice, table} from "./dom.js";
import {ago, duration} from "./format.js";
import {filterBar, fold, liveView} from "./view.js";

export const title = "Alerts";

export const graphLink = (expr) => "query?" + new URLSearchParams({"g0.expr": expr, "g0.tab": "table"});

export function start(main) {
  const bar = filterBar([{value: "firing"}, {value: "pending"}, {value: "inactive"}, {value: "unknown"}], "Filter by name or label", () => redraw());
  main.append(bar.node);

  const alertTable = (alerts) => table(["Labels", "State", "Active since", "Value"], alerts.map((a) => [
    [labelList(a.labels, ["alertname"]), Object.entries(a.annotations || {}).map(([name, value]) =>
      h("div", {class: "annotation"}, h("b", null, name), " ", value))],
    badge(a.state, a.state), h("span", {title: a.activeAt}, ago(a.activeAt)), h("span", {class: "mono"}, a.value)]));

  function ruleNode(group, rule) {
    const alerts = rule.alerts || [];
    return fold(`${group.file};${group.name};${rule.name};${rule.query}`, rule.state === "firing",
      [badge(rule.state, rule.state), h("b", null, rule.name), alerts.length > 0 && h("span", {class: "count"}, `${alerts.length} active`)],
      h("div", {class: "rule"}, h("a", {class: "expr", href: graphLink(rule.query)}, rule.query),
        h("p", {class: "facts"}, rule.duration > 0 && ["for ", duration(rule.duration), " · "],
          rule.keepFiringFor > 0 && ["keep firing for ", duration(rule.keepFiringFor), " · "], labelList(rule.labels)),
        rule.lastError && notice("error", rule.lastError),
        Object.keys(rule.annotations || {}).length > 0 && h("dl", {class: "annotations"}, Object.entries(rule.annotations).map(([name, value]) =>
          [h("dt", null, name), h("dd", null, value)])),
        alerts.length > 0 && alertTable(alerts)));
  }

  const redraw = liveView(main, () => get("rules", {type: "alert"}), (data) => {
    const rules = data.groups.flatMap((g) => g.rules);
    for (const state of ["firing", "pending", "inactive", "unknown"]) bar.countIs(state, rules.filter((r) => r.state === state).length);
    if (!rules.length) return empty("No alerting rules are configured.");
    const groups = data.groups.map((g) => ({...g, rules: g.rules.filter((r) => bar.has(r.state) &&
      bar.matches(r.name, JSON.stringify(r.labels), ...(r.alerts || []).map((a) => JSON.stringify(a.labels))))})).filter((g) => g.rules.length);
    return groups.length ? groups.map((g) => h("section", {class: "group-box"},
      h("h2", null, g.name, h("span", {class: "file"}, g.file)), g.rules.map((r) => ruleNode(g, r)))) : empty("No rule matches the filter.");
  });
}
