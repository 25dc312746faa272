// SPDX-License-Identifier: Apache-2.0
// The JSON of a dashboard, of any version of its schema, as sections with panels and variables. Each value may be absent,
// wrong or hostile: what is read here has one type and a limit.

export const limits = {bytes: 2 * 2 ** 20, panels: 200, targets: 20, variables: 50, values: 1000, text: 10000, overrides: 200, mappings: 200};

// Types that are drawn, with the names of older versions.
const drawn = new Map(Object.entries({timeseries: "timeseries", graph: "timeseries", stat: "stat", singlestat: "stat", gauge: "gauge", bargauge: "bargauge", table: "table", "table-old": "table", text: "text"}));

// --- values of unknown types ---

export const own = (o, key) => o !== null && typeof o === "object" && Object.hasOwn(o, key) ? o[key] : undefined;
export const at = (o, ...path) => path.reduce(own, o);
export const textOf = (v, max = limits.text) => typeof v === "string" ? v.slice(0, max) : typeof v === "number" ? String(v) : "";
export const listOf = (v, max) => Array.isArray(v) ? v.slice(0, max) : [];
// undefined: not a number.
export const numberOf = (v) => v === null || v === "" || typeof v === "boolean" || v === undefined || !Number.isFinite(Number(v)) ? undefined : Number(v);
const within = (v, low, high, usual) => Math.max(low, Math.min(high, Math.round(numberOf(v) ?? usual)));

// --- what a value looks like ---

const result = (r) => ({text: textOf(own(r, "text"), 200), color: textOf(own(r, "color"), 40)});

function mappingsOf(list) {
  return listOf(list, limits.mappings).flatMap((m) => {
    const options = own(m, "options");
    switch (own(m, "type")) {
    case "value": return [{kind: "values", values: new Map(Object.entries(options || {}).slice(0, limits.mappings).map(([value, r]) => [value, result(r)]))}];
    case "range": return [{kind: "range", from: numberOf(own(options, "from")) ?? -Infinity, to: numberOf(own(options, "to")) ?? Infinity, ...result(own(options, "result"))}];
    case "special": return [{kind: "special", match: textOf(own(options, "match")), ...result(own(options, "result"))}];
    // Before version 8, and those of singlestat.
    case 1: case undefined: return own(m, "value") === undefined ? [] : own(m, "value") === "null" ? [{kind: "special", match: "null", ...result(m)}]
      : [{kind: "values", values: new Map([[textOf(own(m, "value")), result(m)]])}];
    case 2: return [{kind: "range", from: numberOf(own(m, "from")) ?? -Infinity, to: numberOf(own(m, "to")) ?? Infinity, ...result(m)}];
    default: return [];
    }
  });
}

const stepsOf = (list) => listOf(list, 50).map((s) => ({value: numberOf(own(s, "value")) ?? -Infinity, color: textOf(own(s, "color"), 40)}));

const readers = {
  unit: (v) => textOf(v, 60), decimals: (v) => numberOf(v) === undefined ? undefined : within(v, 0, 10, 0), min: numberOf, max: numberOf, displayName: (v) => textOf(v, 500), noValue: (v) => textOf(v, 200),
  color: (v) => ({mode: textOf(own(v, "mode"), 60), fixed: textOf(own(v, "fixedColor"), 40)}), mappings: mappingsOf,
  thresholds: (v) => ({percentage: own(v, "mode") === "percentage", steps: stepsOf(own(v, "steps"))}),
  links: (v) => listOf(v, 5).map((l) => ({title: textOf(own(l, "title"), 200), url: textOf(own(l, "url"), 2000)})),
  "custom.stacking": (v) => textOf(own(v, "mode"), 20), "custom.fillOpacity": (v) => within(v, 0, 100, 0), "custom.lineWidth": (v) => within(v, 0, 10, 1), "custom.drawStyle": (v) => textOf(v, 20),
  "custom.lineStyle": (v) => own(v, "fill") === "dash" || own(v, "fill") === "dot", "custom.spanNulls": (v) => v === true, "custom.transform": (v) => textOf(v, 20), "custom.lineInterpolation": (v) => textOf(v, 20),
  "custom.hideFrom": (v) => ({drawing: own(v, "viz") === true, legend: own(v, "legend") === true}), "custom.scaleDistribution": (v) => own(v, "type") === "log", "custom.thresholdsStyle": (v) => textOf(own(v, "mode"), 20),
  "custom.axisSoftMin": numberOf, "custom.axisSoftMax": numberOf, "custom.align": (v) => textOf(v, 10), "custom.hidden": (v) => v === true,
  "custom.cellOptions": (v) => textOf(own(v, "type"), 40), "custom.displayMode": (v) => textOf(v, 40),
};

// Only what is set, so that overrides can be merged.
function lookOf(get) {
  const look = {};
  for (const [id, read] of Object.entries(readers)) {
    const raw = get(id), value = raw === undefined || raw === null ? undefined : read(raw);
    if (value !== undefined) look[id.replace("custom.", "")] = value;
  }
  return look;
}

function fieldOf(raw) {
  const defaults = own(raw, "defaults");
  return {defaults: lookOf((id) => at(defaults, ...id.split("."))), overrides: listOf(own(raw, "overrides"), limits.overrides).map((o) => {
    const set = new Map(listOf(own(o, "properties"), 50).map((p) => [textOf(own(p, "id"), 60), own(p, "value")]));
    return {id: textOf(at(o, "matcher", "id"), 40), options: at(o, "matcher", "options"), look: lookOf((id) => set.get(id))};
  })};
}

// --- panels of versions before 8 ---

const legacyReducers = {current: "lastNotNull", avg: "mean", min: "min", max: "max", total: "sum", first: "firstNotNull", delta: "delta", diff: "diff", range: "range", name: "lastNotNull"};

function fromGraph(raw) {
  const axis = listOf(own(raw, "yaxes"), 2)[0], legend = own(raw, "legend");
  const defaults = {unit: own(axis, "format"), min: numberOf(own(axis, "min")), max: numberOf(own(axis, "max")), decimals: own(raw, "decimals") ?? own(axis, "decimals"),
    "custom.stacking": {mode: own(raw, "stack") === true ? own(raw, "percentage") === true ? "percent" : "normal" : "none"}, "custom.fillOpacity": 10 * (numberOf(own(raw, "fill")) ?? 1),
    "custom.lineWidth": own(raw, "linewidth"), "custom.drawStyle": own(raw, "bars") === true ? "bars" : own(raw, "lines") === false ? "points" : "line", "custom.spanNulls": own(raw, "nullPointMode") === "connected",
    "custom.scaleDistribution": {type: numberOf(own(axis, "logBase")) > 1 ? "log" : "linear"}};
  const overrides = listOf(own(raw, "seriesOverrides"), limits.overrides).map((o) => {
    const alias = textOf(own(o, "alias"), 500), set = {unit: undefined, color: own(o, "color") && {mode: "fixed", fixedColor: own(o, "color")}, "custom.stacking": own(o, "stack") === undefined ? undefined : {mode: own(o, "stack") === false ? "none" : "normal"},
      "custom.transform": own(o, "transform"), "custom.fillOpacity": own(o, "fill") === undefined ? undefined : 10 * numberOf(own(o, "fill")), "custom.lineStyle": own(o, "dashes") === true ? {fill: "dash"} : undefined, "custom.lineWidth": own(o, "linewidth"),
      "custom.hideFrom": {viz: own(o, "hiddenSeries") === true, legend: own(o, "legend") === false}};
    return {id: alias.startsWith("/") ? "byRegexp" : "byName", options: alias, look: lookOf((id) => set[id])};
  });
  const calcs = Object.keys(legacyReducers).filter((k) => own(legend, k) === true).map((k) => legacyReducers[k]);
  return {field: {defaults: lookOf((id) => defaults[id]), overrides},
    options: {legend: {show: own(legend, "show") !== false, table: own(legend, "alignAsTable") === true, right: own(legend, "rightSide") === true, calcs: own(legend, "values") === false ? [] : calcs}}};
}

// "50,80" and three colors.
function legacySteps(raw) {
  const colors = listOf(own(raw, "colors"), 10).map((c) => textOf(c, 40)), limitsOf = textOf(own(raw, "thresholds"), 200).split(",").map((t) => numberOf(t.trim()));
  return colors.length ? {mode: "absolute", steps: colors.map((color, i) => ({color, value: i ? limitsOf[i - 1] : null})).filter((s, i) => !i || s.value !== undefined)} : undefined;
}

function fromSinglestat(raw) {
  const colored = own(raw, "colorValue") === true || own(raw, "colorBackground") === true, gauge = own(raw, "gauge"), isGauge = own(gauge, "show") === true;
  const range = listOf(own(raw, "rangeMaps"), limits.mappings).map((m) => ({type: 2, from: own(m, "from"), to: own(m, "to"), text: own(m, "text")}));
  const defaults = {unit: own(raw, "format"), decimals: own(raw, "decimals"), min: isGauge ? own(gauge, "minValue") : undefined, max: isGauge ? own(gauge, "maxValue") : undefined,
    mappings: [...listOf(own(raw, "valueMaps"), limits.mappings).map((m) => ({type: 1, value: own(m, "value"), text: own(m, "text")})), ...range], noValue: own(raw, "nullText"),
    thresholds: colored || isGauge ? legacySteps(raw) : undefined, color: colored || isGauge ? {mode: "thresholds"} : {mode: "fixed", fixedColor: "text"}};
  return {type: isGauge ? "gauge" : "stat", field: {defaults: lookOf((id) => defaults[id]), overrides: []},
    options: {calcs: [own(legacyReducers, textOf(own(raw, "valueName"), 20)) || "mean"], background: own(raw, "colorBackground") === true, sparkline: at(raw, "sparkline", "show") === true,
      prefix: textOf(own(raw, "prefix"), 100), postfix: textOf(own(raw, "postfix"), 100), showName: own(raw, "valueName") === "name" ? "name" : "none"}};
}

// Each style applies to the columns whose names match its pattern.
function fromTableStyles(raw) {
  const overrides = listOf(own(raw, "styles"), limits.overrides).map((s) => {
    const pattern = textOf(own(s, "pattern"), 500), type = own(s, "type"), steps = listOf(own(s, "thresholds"), 10).join(",");
    const set = {unit: type === "number" ? own(s, "unit") : undefined, decimals: type === "number" ? own(s, "decimals") : undefined, displayName: own(s, "alias") || undefined, "custom.hidden": type === "hidden" ? true : undefined,
      "custom.align": own(s, "align"), thresholds: steps ? legacySteps({colors: own(s, "colors"), thresholds: steps}) : undefined, "custom.displayMode": own(s, "colorMode") === "cell" || own(s, "colorMode") === "row" ? "color-background" : own(s, "colorMode") === "value" ? "color-text" : undefined};
    return {id: pattern.startsWith("/") ? "byRegexp" : "byName", options: pattern, look: lookOf((id) => set[id])};
  });
  return {field: {defaults: {}, overrides}, options: {}};
}

// --- panels ---

function optionsOf(raw, before7) {
  const o = own(raw, "options"), legend = own(o, "legend"), calcs = listOf(at(o, "reduceOptions", "calcs") ?? own(before7, "calcs"), 10).map((c) => textOf(c, 40));
  return {calcs: calcs.length ? calcs : ["lastNotNull"], label: (/^\/?\^?([\w ]{1,100})\$?\/?$/.exec(textOf(at(o, "reduceOptions", "fields"), 200)) || [])[1], background: /^background/.test(textOf(own(o, "colorMode"))), plain: own(o, "colorMode") === "none",
    sparkline: own(o, "graphMode") === "area", showName: textOf(own(o, "textMode"), 40) || "auto", content: textOf(own(o, "content"), 20000), mode: textOf(own(o, "mode"), 20), prefix: "", postfix: "",
    sortBy: listOf(own(o, "sortBy"), 1).map((s) => ({field: textOf(own(s, "displayName"), 500), desc: own(s, "desc") === true}))[0],
    legend: {show: own(legend, "showLegend") !== false && own(legend, "displayMode") !== "hidden", table: own(legend, "displayMode") === "table" || own(legend, "asTable") === true, right: own(legend, "placement") === "right",
      calcs: listOf(own(legend, "calcs"), 6).map((c) => textOf(c, 40))}};
}

const sourceType = (d) => typeof d === "string" ? "" : textOf(own(d, "type"), 60);
const prometheus = new Set(["", "prometheus", "datasource", "mixed"]);
const isPrometheus = (type) => prometheus.has(type) || type.startsWith("grafana-amazonprometheus");

function targetsOf(raw) {
  return listOf(own(raw, "targets"), limits.targets).map((t, i) => {
    const source = sourceType(own(t, "datasource")) || sourceType(own(raw, "datasource")), expr = textOf(own(t, "expr"));
    return {refId: textOf(own(t, "refId"), 20) || String.fromCharCode(65 + i), expr, legend: textOf(own(t, "legendFormat"), 500), table: own(t, "format") === "table", heatmap: own(t, "format") === "heatmap",
      instant: own(t, "instant") === true && own(t, "range") !== true, hide: own(t, "hide") === true, interval: textOf(own(t, "interval"), 60), source: isPrometheus(source) ? "" : source};
  });
}

function panelOf(raw, id) {
  const name = textOf(own(raw, "type"), 60), old = own(raw, "fieldConfig") === undefined;
  const before7 = at(raw, "options", "fieldOptions"); // of gauges
  const modern = {type: drawn.get(name), field: fieldOf(own(raw, "fieldConfig") ?? before7), options: optionsOf(raw, before7)};
  const upgraded = name === "graph" ? fromGraph(raw) : name === "singlestat" ? fromSinglestat(raw) : modern.type === "table" && (old || name === "table-old") && own(raw, "styles") ? fromTableStyles(raw) : {};
  const p = {...modern, ...upgraded, options: {...modern.options, ...upgraded.options}, id, name, title: textOf(own(raw, "title"), 500), description: textOf(own(raw, "description"), 5000), targets: targetsOf(raw),
    transformations: listOf(own(raw, "transformations"), 30).filter((t) => own(t, "disabled") !== true).map((t) => ({id: textOf(own(t, "id"), 60), options: own(t, "options")})),
    interval: textOf(own(raw, "interval"), 60), timeFrom: textOf(own(raw, "timeFrom"), 40), repeat: textOf(own(raw, "repeat"), 100), wide: own(raw, "repeatDirection") !== "v", perRow: within(own(raw, "maxPerRow"), 1, 12, 4)};
  if (name === "text" && !p.options.content) Object.assign(p.options, {content: textOf(own(raw, "content"), 20000), mode: textOf(own(raw, "mode"), 20)});
  const foreign = p.targets.find((t) => t.source);
  p.reason = own(raw, "libraryPanel") && !p.targets.length && name !== "text" ? "This panel is in a library that the file does not contain."
    : !p.type ? `Panels of the type “${name || "without a name"}” are not drawn.`
    : foreign ? `Its data source “${foreign.source}” is not Prometheus.`
    : p.type !== "text" && p.targets.length && p.targets.every((t) => !t.expr) ? "It has no PromQL query." : "";
  return p;
}

const placed = (panel, raw) => {
  const w = within(own(raw, "w"), 1, 24, 12), x = within(own(raw, "x"), 0, 23, 0);
  return {...panel, x: Math.min(x, 24 - w), y: within(own(raw, "y"), 0, 10000, 0), w, h: within(own(raw, "h"), 2, 60, 8)};
};
const sectionOf = (raw, title) => ({title, collapsed: own(raw, "collapsed") === true || own(raw, "collapse") === true, repeat: textOf(own(raw, "repeat"), 100), panels: []});

// Rows of the grid and their panels in the order of reading.
function sectionsOf(body) {
  const sections = [sectionOf(null, "")];
  let n = 0, omitted = 0;
  const add = (raw, place) => {
    if (n >= limits.panels) omitted++;
    else sections[sections.length - 1].panels.push(placed(panelOf(raw, ++n), place));
  };
  const grid = (p) => own(p, "gridPos"), y = (p) => numberOf(own(grid(p), "y")) ?? 0, x = (p) => numberOf(own(grid(p), "x")) ?? 0;
  for (const raw of listOf(own(body, "panels"), 10000).sort((a, b) => y(a) - y(b) || x(a) - x(b))) {
    if (own(raw, "type") !== "row") {
      add(raw, grid(raw));
      continue;
    }
    sections.push(sectionOf(raw, textOf(own(raw, "title"), 500)));
    for (const inner of listOf(own(raw, "panels"), 10000)) add(inner, grid(inner));
  }
  // Before version 5: rows with panels of 12 columns.
  for (const row of listOf(own(body, "rows"), 500)) {
    sections.push(sectionOf(row, own(row, "showTitle") === false ? "" : textOf(own(row, "title"), 500)));
    let left = 0, top = 0;
    const height = within(String(own(row, "height") ?? "").replace(/px$/, "") / 38, 2, 40, 7) || 7;
    for (const raw of listOf(own(row, "panels"), 10000)) {
      const w = 2 * within(own(raw, "span"), 1, 12, 12);
      if (left + w > 24) { left = 0; top += height; }
      add(raw, {x: left, y: top, w, h: height});
      left += w;
    }
  }
  return {sections: sections.filter((s) => s.title || s.panels.length), omitted};
}

// --- variables ---

const valuesOf = (v) => [v].flat().slice(0, limits.values).map((one) => textOf(one, 1000));

function variableOf(raw) {
  const query = own(raw, "query"), type = textOf(own(raw, "type"), 30);
  return {name: textOf(own(raw, "name"), 100), label: textOf(own(raw, "label"), 200), type, query: typeof query === "object" && query ? textOf(own(query, "query")) || textOf(own(raw, "definition")) : textOf(query), regex: textOf(own(raw, "regex"), 1000),
    multi: own(raw, "multi") === true, includeAll: own(raw, "includeAll") === true, allValue: textOf(own(raw, "allValue"), 1000), hidden: own(raw, "hide") === 2 || own(raw, "hide") === "hideVariable" || type === "datasource" || type === "constant",
    sort: within(own(raw, "sort"), 0, 8, 0), auto: own(raw, "auto") === true, autoCount: within(own(raw, "auto_count"), 1, 500, 30), autoMin: textOf(own(raw, "auto_min"), 20),
    current: own(at(raw, "current"), "value") === undefined ? [] : valuesOf(at(raw, "current", "value")),
    options: listOf(own(raw, "options"), limits.values).map((o) => ({text: valuesOf(own(o, "text")).join(" + "), value: valuesOf(own(o, "value")).join(",")})).filter((o) => o.value !== "$__all"),
    foreign: isPrometheus(sourceType(own(raw, "datasource"))) ? "" : sourceType(own(raw, "datasource"))};
}

// --- the file ---

// {title, uid, description, tags, from, to, refresh, sections, variables, notes}. Throws an Error with a text for the reader.
export function readDashboard(text) {
  if (text.length > limits.bytes) throw new Error(`The file has more than ${limits.bytes / 2 ** 20} MiB.`);
  let body;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Error(`The text is not JSON: ${error.message.slice(0, 300)}`);
  }
  body = own(body, "dashboard") ?? (own(body, "kind") === "Dashboard" ? own(body, "spec") : body);
  if (own(body, "elements") && own(body, "layout")) throw new Error("The file has version 2 of the schema. Export the dashboard as a classic model.");
  if (!Array.isArray(own(body, "panels")) && !Array.isArray(own(body, "rows")) && !textOf(own(body, "title"))) throw new Error("The JSON is not a dashboard: it has neither panels nor a title.");
  const {sections, omitted} = sectionsOf(body), variables = listOf(at(body, "templating", "list"), limits.variables).map(variableOf).filter((v) => /^\w{1,100}$/.test(v.name));
  const notes = [omitted > 0 && `${omitted} panels are left out: at most ${limits.panels} are drawn.`,
    ...variables.filter((v) => !["query", "interval", "custom", "constant", "datasource", "textbox"].includes(v.type)).map((v) => `The variable ${v.name} has the type “${v.type}”, which has no effect.`)].filter((t) => t);
  const refresh = own(body, "refresh");
  return {title: textOf(own(body, "title"), 300) || "Dashboard without a title", uid: textOf(own(body, "uid"), 100), description: textOf(own(body, "description"), 5000), tags: listOf(own(body, "tags"), 20).map((t) => textOf(t, 60)),
    from: textOf(at(body, "time", "from"), 60) || "now-1h", to: textOf(at(body, "time", "to"), 60) || "now", refresh: typeof refresh === "string" ? refresh.slice(0, 20) : "", sections, variables, notes};
}
