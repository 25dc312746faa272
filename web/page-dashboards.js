// SPDX-License-Identifier: Apache-2.0
// The list of dashboards, and the import of a file in the JSON of Grafana.
import {addressOf} from "./api.js";
import {limits, readDashboard} from "./dashboard-model.js";
import {addressOfDashboard, listDashboards, nameOf, removeFromSession, sessionDashboards, storeInCluster, storeInSession} from "./dashboard-store.js";
import {badge, empty, h, notice, replace, table} from "./dom.js";
import {bytes} from "./format.js";
import {section} from "./object.js";

export const title = "Dashboards";

export function start(main) {
  const list = h("div"), result = h("div", {"aria-live": "polite"}), preview = h("div");
  const field = h("textarea", {class: "expression import-text", rows: 5, spellcheck: "false", "aria-label": "JSON of a dashboard", placeholder: "… or paste the JSON here", oninput: () => read(field.value)});
  const file = h("input", {type: "file", accept: ".json,application/json", "aria-label": "File of a dashboard", onchange: () => choose(file.files[0])});
  let cluster = null;

  // The file has its own reader, which shows the largest size before it is read.
  async function choose(chosen) {
    if (!chosen) return;
    if (chosen.size > limits.bytes) {
      replace(preview, notice("error", `${chosen.name} has ${bytes(chosen.size)}. At most ${bytes(limits.bytes)} are read.`));
      return;
    }
    field.value = await chosen.text();
    read(field.value);
  }

  function read(text) {
    replace(result);
    const id = /^\s*(\d{1,6})\s*$/.exec(text);
    if (id) {
      replace(preview, notice("info", `Download the file of dashboard ${id[1]} at `, h("a", {href: `https://grafana.com/grafana/dashboards/${id[1]}`, target: "_blank", rel: "noopener noreferrer"}, `grafana.com/grafana/dashboards/${id[1]}`),
        " and choose it here. This page loads nothing from other hosts."));
      return;
    }
    if (!text.trim()) {
      replace(preview);
      return;
    }
    try {
      const found = readDashboard(text);
      replace(preview, form(found, text));
    } catch (error) {
      replace(preview, notice("error", error.message));
    }
  }

  function form(found, text) {
    const panels = found.sections.flatMap((s) => s.panels), missing = panels.filter((p) => p.reason).length;
    const known = cluster?.dashboards[0]?.namespace || "default";
    const name = h("input", {type: "text", value: nameOf(found.title), "aria-label": "Name of the ConfigMap", size: 30}), namespace = h("input", {type: "text", value: known, "aria-label": "Namespace", size: 14});
    const replaces = h("input", {type: "checkbox"});
    const goTo = (store) => async () => {
      try {
        location.href = addressOfDashboard(await store());
      } catch (error) {
        replace(result, notice("error", error.message));
      }
    };
    const save = goTo(() => storeInCluster(namespace.value.trim(), name.value.trim(), text, replaces.checked)), open = goTo(() => ({session: storeInSession(found.title, text)}));
    return h("div", {class: "import-form"}, h("p", null, h("b", null, found.title), h("span", {class: "muted"}, ` ${panels.length} panels, ${found.variables.length} variables`, missing > 0 && `; ${missing} panels are not drawn`)),
      cluster && h("p", {class: "controls"}, "ConfigMap ", namespace, " / ", name, h("label", null, replaces, " replace an imported one"), h("button", {type: "button", class: "primary", onclick: save}, "Import")),
      h("p", {class: "controls"}, h("button", {type: "button", class: cluster ? null : "primary", onclick: open}, "Open without storing it"),
        h("span", {class: "muted"}, cluster ? "It stays in this window of the browser only." : "No cluster can be written: it stays in this window of the browser only.")));
  }

  function show() {
    const own = sessionDashboards(), rows = [...own.map((d) => [h("a", {href: addressOfDashboard(d)}, d.title), badge("pending", "this window"), "", h("button", {type: "button", class: "link", onclick: () => { removeFromSession(d.session); show(); }}, "remove")]),
      ...(cluster?.dashboards || []).map((d) => [h("a", {href: addressOfDashboard(d)}, d.title || d.file), [`${d.namespace}/${d.name}`, d.imported && [" ", badge("ok", "imported")]], d.file, bytes(d.bytes)])];
    replace(list, rows.length ? table([{name: "Title", class: "wide"}, "ConfigMap", "File", "Size"], rows) : empty(cluster ? "No ConfigMap has the label grafana_dashboard=1. Charts such as kube-prometheus-stack create them." : "No dashboard was imported in this window."),
      cluster?.omitted > 0 && h("p", {class: "muted more"}, `${cluster.omitted} more files are not listed.`));
  }

  main.append(h("p", {class: "muted"}, "Grafana is not part of gpuscale. This page draws dashboards in its JSON from the series of this engine, and does not edit them. GPUs and autoscalers are on the ",
    h("a", {href: "./"}, "overview"), ". For a Grafana of your own, add ", h("code", null, addressOf("./").replace(/\/$/, "")), " as a Prometheus data source."),
    section("Import", h("div", {class: "import"}, file, field, preview, result)), section("Dashboards", list));
  list.append(empty("Loading …"));
  listDashboards().then((found) => { cluster = found; show(); }, (error) => { show(); list.prepend(notice("error", error.message)); }).then(() => field.value && read(field.value));
}
