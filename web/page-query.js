// SPDX-License-Identifier: Apache-2.0
// The query page.
import {h} from "./dom.js";
import {Panel, readPanels, writePanels} from "./panel.js";

export const title = "Query";

export function start(main) {
  let panels = [];
  const list = h("div", {class: "panels"});
  const save = () => history.pushState(null, "", "query?" + writePanels(panels.map((p) => p.state)));

  function add(state) {
    const panel = new Panel(state, save, () => remove(panel));
    panels.push(panel);
    list.append(panel.node);
    return panel;
  }

  function remove(panel) {
    panels = panels.filter((p) => p !== panel);
    panel.finish();
    if (!panels.length) add(readPanels("")[0]);
    save();
  }

  function load() {
    panels.forEach((p) => p.finish());
    panels = [];
    readPanels(location.search).forEach(add);
  }

  main.append(list, h("button", {type: "button", class: "add", onclick: () => {
    const last = panels[panels.length - 1].state;
    add({...last, expr: ""}).input.focus();
  }}, "Add a query"));
  window.addEventListener("popstate", load);
  load();
  if (!panels[0].state.expr) panels[0].input.focus();
}
