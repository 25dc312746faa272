// SPDX-License-Identifier: Apache-2.0
// The first page: autoscalers, what waits, nodes with their GPUs, and a timeline.
import {Decisions} from "./decision.js";
import {append, badge, empty, h, table} from "./dom.js";
import {age, count} from "./format.js";
import {onData} from "./live.js";
import {gpuTable, simulatedNote, tile} from "./object.js";
import {nodePage, readDetails, readOverview, workloadPage} from "./overview-data.js";
import {Timeline} from "./timeline.js";
import {fold, isOpen, liveView} from "./view.js";
import {noWorkloads, workloadCells, workloadColumns} from "./workload-row.js";

export const title = "Overview";

const firstRows = 40, openUntil = 32, pendingAtOnce = 6, timelineMs = 5000, decisionsMs = 2000, decisionsAtOnce = 8; // GPUs; with more, nodes are closed at first

const mean = (values) => values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;

export function start(main) {
  let selected = null, hpas = null, first = true, complete = false;
  const part = (list) => complete ? list : list.slice(0, firstRows); // the first view needs no more than fits
  const timeline = new Timeline();
  const box = h("div"), decisions = new Decisions(() => redraw());
  main.append(box, timeline.node);

  function tiles(data) {
    const live = data.gpus.filter((g) => g.state !== "missing"), utils = live.map((g) => g.values.GPU_UTIL).filter((v) => v !== undefined);
    const busy = live.filter((g) => (g.owners.size || g.shared)).length, ready = data.nodes.filter((n) => n.ready).length;
    const coming = data.pools.reduce((sum, p) => sum + (p.coming_nodes || 0), 0), firing = data.alerts.filter((a) => a.state === "firing").length;
    const known = data.hpas.filter((a) => a.current !== undefined);
    return h("div", {class: "tiles"},
      tile("GPUs in use", live.length ? `${count(busy)} / ${count(live.length)}` : "–", data.gpus.length > live.length && `${count(data.gpus.length - live.length)} without data`),
      tile("GPU utilization", utils.length ? `${Math.round(mean(utils))} %` : "–", utils.length > 0 && `average of ${count(utils.length)}`),
      tile("Replicas", known.length ? count(known.reduce((sum, a) => sum + a.current, 0)) : "–", `${count(data.hpas.length)} autoscaler${data.hpas.length === 1 ? "" : "s"}`),
      tile("Nodes ready", data.nodes.length ? `${count(ready)} / ${count(data.nodes.length)}` : "–", coming > 0 && `${count(coming)} coming`),
      tile("Pending pods", count(data.pending.length), null, data.pending.length ? "warn" : ""),
      tile("Alerts firing", count(firing), null, firing ? "bad" : "", "alerts"));
  }

  function decisionNode(a) {
    const d = decisions.of(a);
    return d && [h("span", {class: d.kind === "error" ? "error-text" : ""}, d.text), d.why && a.change && h("span", {class: "muted"}, ` Last change: ${d.why}.`),
      !Number.isNaN(d.age) && h("span", {class: "muted"}, ` Values up to ${age(d.age)} old.`)];
  }

  // The autoscalers whose rows are on the screen.
  function seen() {
    const list = box.querySelector("[data-scroll=workloads]"), frame = list && list.getBoundingClientRect();
    const keys = list ? [...list.querySelectorAll(".more-link")].filter((link) => {
      const {top, bottom} = link.getBoundingClientRect();
      return bottom > Math.max(0, frame.top) && top < Math.min(innerHeight, frame.bottom);
    }).map((link) => link.dataset.key.replace("workload ", "")) : [];
    return hpas.filter((a) => a.key === selected || keys.includes(a.key)).slice(0, decisionsAtOnce);
  }

  const workloads = (data) => h("section", {class: "group-box"}, h("h2", null, "Workloads"), h("div", {class: "tall", "data-scroll": "workloads"}, data.hpas.length ? table([{name: "Autoscaler", class: "wide"}, ...workloadColumns], part(data.hpas).map((a) => ({
      class: selected === a.key ? "selected" : "", note: decisionNode(a),
      cells: [[h("button", {type: "button", class: "link", "data-key": "hpa " + a.key, "aria-pressed": String(selected === a.key), title: "Show in the timeline", onclick: () => { selected = a.key; redraw(); timeline.update(a); }},
        h("b", null, a.name), h("span", {class: "muted"}, ` ${a.ns}`)),
      h("div", null, h("a", {class: "more-link", href: workloadPage(a), "data-key": "workload " + a.key}, "why?"))],
      ...workloadCells(a)]})))
      : noWorkloads()));

  const problem = (p) => h("li", null, badge("down", p.reason), h("span", null, h("b", null, p.name), h("span", {class: "muted"}, ` ${p.namespace || ""}${p.pods > 1 ? ` · ${count(p.pods)} pods` : ""}`),
    h("div", null, p.text), h("div", {class: "muted"}, p.remedy)));
  const explained = (data, key) => data.problems.some((p) => key === `${p.namespace}/${p.name}` || key.startsWith(`${p.namespace}/${p.name}-`));

  const pendingNodes = (pending) => [pending.slice(0, pendingAtOnce).map((p) => h("li", null, badge("pending", age(Date.now() / 1000 - p.since)), h("span", null, h("b", null, p.key.split("/")[1]), h("span", {class: "muted"}, ` ${p.key.split("/")[0]} · ${p.reason}`)))),
    pending.length > pendingAtOnce && h("li", {class: "muted"}, `and ${count(pending.length - pendingAtOnce)} more pods`)];

  const waiting = (data) => (data.pending.length > 0 || data.problems.length > 0 || data.pools.some((p) => p.coming_nodes > 0)) && h("section", {class: "group-box"}, h("h2", null, "Waiting"),
    h("ul", {class: "waiting"}, data.pools.filter((p) => p.coming_nodes > 0).map((p) => h("li", null, badge("coming", "coming"),
      h("span", null, `${p.coming_nodes} node${p.coming_nodes === 1 ? "" : "s"} of pool `, h("b", null, p.name)))),
    data.problems.slice(0, firstRows).map(problem), pendingNodes(data.pending.filter((p) => !explained(data, p.key)))));

  function nodeFold(n, gpus, open) {
    const utils = gpus.map((g) => g.values.GPU_UTIL).filter((v) => v !== undefined);
    const dots = h("span", {class: "dots", "aria-hidden": "true"}), shown = gpus.slice(0, 16);
    dots.style.width = `${shown.length * 10}px`;
    // One element with a column for each GPU: a thousand elements would take their time.
    dots.style.background = shown.map((g, i) => `linear-gradient(to top, ${g.state === "missing" ? "var(--bad)" : g.state === "stale" ? "var(--muted)" : "#3f9e6e"} ${g.state === "missing" ? 100 : Math.round(g.values.GPU_UTIL ?? 0)}%, var(--dot) 0) ${i * 10}px 0 / 8px 14px no-repeat`).join(", ");
    const state = n.deleting ? badge("pending", "deleting") : n.ready === false ? badge("down", "not ready") : n.cordoned ? badge("pending", "cordoned") : null;
    const rows = () => gpus.length ? gpuTable(gpus)
      : empty(n.gpus ? `${n.gpus} GPUs, not measured yet.` : "No GPUs.");
    const details = fold("node " + n.name, open, [h("a", {class: "node-link", href: nodePage(n.name), "data-key": "node page " + n.name}, n.name), dots, state, h("span", {class: "muted"}, [n.pool && `pool ${n.pool}`, n.type !== n.pool && n.type,
      gpus.length > 0 && `${gpus.filter((g) => (g.owners.size || g.shared)).length} of ${gpus.length} GPUs used`, utils.length > 0 && `${Math.round(mean(utils))} %`].filter((t) => t).join(" · "))]);
    const fill = async () => {
      if (!details.open || details.children.length !== 1) return;
      const box = h("div");
      details.append(box);
      try {
        if (!gpus.every((g) => g.detailed || g.state === "missing")) await readDetails(gpus);
        append(box, [rows()]);
      } catch (error) {
        append(box, [empty(error.message)]);
      }
    };
    details.addEventListener("toggle", fill);
    fill();
    return details;
  }

  function nodes(data) {
    const byNode = new Map(data.nodes.map((n) => [n.name, {node: n, gpus: []}]));
    for (const g of data.gpus) {
      if (!byNode.has(g.node)) byNode.set(g.node, {node: {name: g.node}, gpus: []});
      byNode.get(g.node).gpus.push(g);
    }
    const all = [...byNode.values()].filter(({node, gpus}) => gpus.length || node.gpus || data.nodes.length <= 8);
    const open = data.gpus.length <= openUntil;
    return h("section", {class: "group-box"}, h("h2", null, "Nodes and GPUs", data.pools.map((p) => h("span", {class: "file"}, `pool ${p.name}: ${p.ready_nodes ?? 0} ready${p.coming_nodes ? `, ${p.coming_nodes} coming` : ""}`))),
      h("div", {class: "tall", "data-scroll": "nodes"},
        all.length ? part(all).map(({node, gpus}) => nodeFold(node, gpus, open)) : empty("No GPU metrics. Scrape a gpuscale exporter or a dcgm-exporter: see the targets.")));
  }

  const wanted = (gpus) => gpus.filter((g) => isOpen("node " + g.node, gpus.length <= openUntil));
  const redraw = liveView(box, () => readOverview(wanted), (data) => {
    hpas = data.hpas;
    if (!complete) setTimeout(() => { complete = true; redraw(); });
    if (!selected) {
      selected = hpas.length ? hpas[0].key : null;
      if (selected || first) timeline.update(hpas[0] || null);
      first = false;
    }
    return [data.gpus.some((g) => g.simulated) && simulatedNote(),
      tiles(data), h("div", {class: "overview"}, h("div", null, waiting(data), workloads(data)), h("div", null, nodes(data)))];
  });
  onData(() => hpas && decisions.read(seen()), decisionsMs);
  onData(() => hpas && timeline.live() && timeline.update(hpas.find((a) => a.key === selected) || null), timelineMs);
}
