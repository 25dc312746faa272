// SPDX-License-Identifier: Apache-2.0
// One dashboard: its variables, time range and panels. The state is in the address: var-NAME, from, to and refresh.
import {DashboardPanel} from "./dashboard-panel.js";
import {limits, readDashboard} from "./dashboard-model.js";
import {addressOfDashboard, listDashboards, readText} from "./dashboard-store.js";
import {all, Variables} from "./dashboard-variables.js";
import {empty, h, notice, replace} from "./dom.js";
import {duration, parseDuration, parseTime, time} from "./format.js";
import {safeLink} from "./markdown.js";
import {heading, simulatedNote} from "./object.js";
import {readSimulated} from "./overview-data.js";

export const title = "Dashboard";

const ranges = ["5m", "15m", "30m", "1h", "3h", "6h", "12h", "1d", "2d", "7d", "30d"], refreshes = ["5s", "10s", "30s", "1m", "5m", "15m"], maxRepeats = 30, leastRefresh = 5;
const params = new URLSearchParams(location.search);

// "now-1h", milliseconds, or a time; seconds, or NaN.
function pointInTime(text, now) {
  const relative = /^now(?:([-+])(\d{1,6})([smhdwMy]))?(?:\/[smhdwMy])?$/.exec(text);
  if (relative) {
    const size = {s: 1, m: 60, h: 3600, d: 86400, w: 604800, M: 2592000, y: 31536000}[relative[3]] || 0;
    return now + (relative[1] === "+" ? 1 : -1) * Number(relative[2] || 0) * size;
  }
  return /^\d{9,16}$/.test(text) ? Number(text) / 1000 : Number.isNaN(parseTime(text, true)) ? Date.parse(text) / 1000 : parseTime(text, true);
}

// Panels move up until they meet another one. columns: the height of what is above, for each column of the grid.
function upwards(panel, columns) {
  const own = columns.slice(panel.x, panel.x + panel.w), y = Math.max(...own);
  columns.fill(y + panel.h, panel.x, panel.x + panel.w);
  return {...panel, y};
}

class Page {
  constructor(main, dashboard) {
    this.dashboard = dashboard;
    this.variables = new Variables(dashboard.variables, params);
    this.setTimes(params.get("from") || dashboard.from, params.get("to") || dashboard.to);
    const wanted = params.has("refresh") ? params.get("refresh") : dashboard.refresh, seconds = parseDuration(wanted);
    this.refresh = seconds > 0 ? duration(Math.max(leastRefresh, seconds)) : "";
    this.panels = [];
    this.known = new Map();
    this.collapsed = new Map();
    this.bar = h("div", {class: "dash-bar"});
    this.problem = h("div");
    this.grid = h("div", {class: "dash-sections"});
    this.observer = new IntersectionObserver((entries) => entries.forEach((e) => this.panels.find((p) => p.node === e.target)?.show(e.isIntersecting)), {rootMargin: "200px"});
    main.append(dashboard.notes.length ? notice("info", dashboard.notes.join("\n")) : h("span"), this.bar, this.problem, this.grid);
    this.linkOf = (...args) => this.link(...args);
    document.addEventListener("click", (event) => this.bar.querySelectorAll("details[open]").forEach((d) => { if (!d.contains(event.target)) d.open = false; }));
    document.addEventListener("visibilitychange", () => this.schedule());
  }

  // A range that cannot be read is the last hour.
  setTimes(from, to) {
    const now = Date.now() / 1000, ok = pointInTime(from, now) < pointInTime(to, now);
    [this.from, this.to] = ok ? [from, to] : ["now-1h", "now"];
  }

  range() { return this.now; }
  isLive() { return this.to === "now"; }
  stamp() { return `${this.from} ${this.to}`; }

  readTimes() {
    const now = Date.now() / 1000;
    this.now = {start: pointInTime(this.from, now), end: pointInTime(this.to, now)};
  }

  zoom(start, end) {
    if (this.isLive()) this.before = this.from;
    this.setTimes(String(Math.round(start * 1000)), String(Math.round(end * 1000)));
    this.reload();
  }

  // Reads the variables again, then draws the panels that are in view.
  async reload() {
    this.abort?.abort();
    const {signal} = this.abort = new AbortController();
    this.readTimes();
    this.drawBar();
    try {
      await this.variables.load(this.now.start, this.now.end, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(this.problem, notice("error", error.message));
    }
    if (signal.aborted) return;
    this.saveAddress();
    this.drawBar();
    this.build();
    this.schedule();
  }

  saveAddress() {
    const next = new URLSearchParams([...params].filter(([key]) => ["name", "file", "session"].includes(key)));
    this.variables.addTo(next);
    next.set("from", this.from);
    next.set("to", this.to);
    next.set("refresh", this.refresh);
    history.replaceState(null, "", `dashboard?${next}`);
  }

  schedule() {
    clearTimeout(this.timer);
    const seconds = parseDuration(this.refresh);
    if (!(seconds > 0) || document.hidden || !/^now/.test(this.to)) return;
    this.timer = setTimeout(() => {
      this.readTimes();
      this.panels.forEach((p) => p.changed());
      this.schedule();
    }, seconds * 1000);
  }

  // --- the bar ---

  drawBar() {
    if (this.bar.contains(document.activeElement) && this.bar.querySelector("details[open]")) return;
    const preset = ranges.find((r) => this.from === `now-${r}` && this.to === "now") || (/^now-\d+[smhd]$/.test(this.from) && this.to === "now" ? this.from.slice(4) : "");
    const options = preset && !ranges.includes(preset) ? [preset, ...ranges] : ranges;
    replace(this.bar, this.variables.list.filter((v) => !v.hidden).map((v) => this.picker(v)),
      h("span", {class: "dash-times"},
        preset ? null : [h("span", {class: "muted"}, `${time(this.now.start)} to ${time(this.now.end)}`),
          h("button", {type: "button", class: "primary", onclick: () => { this.setTimes(this.before || "now-1h", "now"); this.reload(); }}, "Back to live")],
        h("label", null, "Last ", h("select", {"aria-label": "Time range", onchange: (event) => { if (!event.target.value) return; this.setTimes(`now-${event.target.value}`, "now"); this.reload(); }},
          !preset && h("option", {value: "", selected: true}, "–"), options.map((r) => h("option", {value: r, selected: r === preset}, r)))),
        h("label", null, "Refresh ", h("select", {"aria-label": "Refresh", onchange: (event) => { this.refresh = event.target.value; this.saveAddress(); this.schedule(); }},
          h("option", {value: "", selected: !this.refresh}, "off"), [...new Set([...refreshes, this.refresh].filter((r) => r))].map((r) => h("option", {value: r, selected: r === this.refresh}, r)))),
        h("button", {type: "button", onclick: () => this.reload()}, "Refresh now")));
  }

  picker(v) {
    const name = h("span", {class: "dash-variable"}, v.label || v.name), change = (selected) => { v.selected = selected; this.reload(); };
    const problem = v.error && h("span", {class: "error-text", title: v.error}, "error");
    if (v.type === "textbox") return h("label", {class: "dash-pick"}, name, h("input", {type: "text", value: v.selected[0] || "", size: 14, onchange: (event) => change([event.target.value])}));
    if (!v.options?.length) return h("span", {class: "dash-pick"}, name, problem || h("span", {class: "missing"}, "no values"));
    const choices = [...(v.includeAll ? [{text: "All", value: all}] : []), ...v.options.slice(0, limits.values)];
    if (!v.multi) return h("label", {class: "dash-pick"}, name, h("select", {"data-variable": v.name, onchange: (event) => change([event.target.value])}, choices.map((o) => h("option", {value: o.value, selected: v.selected.includes(o.value)}, o.text))), problem);
    const shown = v.selected.includes(all) ? "All" : v.selected.map((s) => v.options.find((o) => o.value === s)?.text ?? s).join(" + ");
    const boxes = choices.map((o) => h("label", null, h("input", {type: "checkbox", value: o.value, checked: v.selected.includes(o.value)}), o.text));
    const close = () => {
      const marked = boxes.map((b) => b.firstChild).filter((b) => b.checked).map((b) => b.value), added = marked.includes(all) && !v.selected.includes(all);
      change(added || !marked.length ? (v.includeAll ? [all] : v.selected) : marked.filter((value) => value !== all));
    };
    const list = h("div", {class: "dash-choices"}, choices.length > 12 && h("input", {type: "search", placeholder: "Search", "aria-label": `Search ${v.label || v.name}`, oninput: (event) => boxes.forEach((b, i) => { b.hidden = !choices[i].text.toLowerCase().includes(event.target.value.toLowerCase()); })}), boxes,
      h("button", {type: "button", class: "primary", onclick: (event) => { event.target.closest("details").open = false; event.target.blur(); close(); }}, "Apply"));
    return h("span", {class: "dash-pick"}, name, h("details", {"data-variable": v.name}, h("summary", null, h("span", {class: "dash-chosen"}, shown || "none")), list), problem);
  }

  // --- the panels ---

  repeatValues(name) {
    const v = this.variables.byName.get(name);
    return v ? this.variables.valuesOf(v).slice(0, maxRepeats) : [];
  }

  // Copies of a panel for the values of its variable, in rows of equal panels.
  repeated(panel, scope) {
    const values = this.repeatValues(panel.repeat);
    if (!values.length) return [{panel, scope}];
    const perRow = panel.wide ? Math.min(panel.perRow, values.length) : 1, w = panel.wide ? Math.floor(24 / perRow) : panel.w;
    return values.map((value, i) => ({scope: new Map([...scope, [panel.repeat, value]]), panel: {...panel, x: panel.wide ? (i % perRow) * w : panel.x, w}}));
  }

  sections() {
    return this.dashboard.sections.flatMap((s) => {
      const values = this.repeatValues(s.repeat);
      return values.length ? values.map((value) => ({...s, key: `${s.title} ${value}`, scope: new Map([[s.repeat, value]])})) : [{...s, key: s.title, scope: new Map()}];
    });
  }

  build() {
    const scrolled = scrollY, states = new Map(this.panels.map((p) => [p.key, p.state]));
    this.observer.disconnect();
    this.panels.forEach((p) => p.finish());
    this.panels = [];
    let n = 0;
    const nodes = this.sections().map((s, k) => {
      const cells = [], columns = Array(24).fill(0);
      for (const p of s.panels) {
        for (const {panel, scope} of this.repeated(p, s.scope)) {
          if (n++ >= limits.panels) break;
          const one = new DashboardPanel(upwards(panel, columns), scope, this);
          one.key = `${k} ${p.id} ${[...scope].join()}`;
          if (states.has(one.key)) one.state = states.get(one.key);
          this.panels.push(one);
          cells.push(one.node);
        }
      }
      const grid = h("div", {class: "dash-grid"}, cells), open = !(this.collapsed.get(s.key) ?? s.collapsed);
      return s.title ? h("details", {class: "dash-row", open, ontoggle: (event) => this.collapsed.set(s.key, !event.target.open)}, h("summary", null, this.variables.replace(s.title, s.scope), h("span", {class: "count"}, `${s.panels.length} panel${s.panels.length === 1 ? "" : "s"}`)), grid) : grid;
    });
    replace(this.grid, nodes.length ? nodes : empty("The dashboard has no panels."));
    scrollTo(0, scrolled);
    this.panels.forEach((p) => this.observer.observe(p.node));
  }

  // The link of a cell: to another dashboard that this page has, or to another site.
  link({title: name, url}, text, frame, i) {
    const fields = (match, a, b) => { const f = frame.find((g) => g.name === (a || b) || g.column === (a || b)); return f ? encodeURIComponent(f.values[i] ?? "") : ""; };
    const filled = this.variables.replace(url.replace(/\$\{__data\.fields(?:\.([\w ]{1,100})|\[["']?([^\]"']{1,100})["']?\])\}/g, fields).replace(/\$\{__value\.(?:text|raw)\}|\$__cell\b/g, encodeURIComponent(text)));
    const own = /^\/?d\/([\w-]{1,100})[^?]*(?:\?(.*))?$/.exec(filled), target = own && this.known.get(own[1]);
    if (target) return {href: `${addressOfDashboard(target)}&${new URLSearchParams([...new URLSearchParams(own[2] || "")].filter(([key]) => key.startsWith("var-")))}`, title: name};
    const outside = safeLink(filled).getAttribute("href");
    return outside ? {href: outside, title: name, outside: true} : null;
  }
}

export async function start(main) {
  heading(main, [["Dashboards", "dashboards"]], "Dashboard");
  const loading = empty("Loading …");
  main.append(loading);
  try {
    const [text, simulated, found] = await Promise.all([readText(params), readSimulated().catch(() => false), listDashboards().catch(() => null)]), dashboard = readDashboard(text);
    loading.remove();
    heading(main, [["Dashboards", "dashboards"]], dashboard.title);
    main.querySelector("h1").title = dashboard.description;
    if (simulated) main.append(simulatedNote());
    const page = new Page(main, dashboard);
    page.known = new Map((found?.dashboards || []).filter((d) => d.uid).map((d) => [d.uid, d]));
    await page.reload();
  } catch (error) {
    replace(loading, notice("error", error.message));
    main.append(h("p", null, h("a", {href: "dashboards"}, "All dashboards")));
  }
}
