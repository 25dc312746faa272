// SPDX-License-Identifier: Apache-2.0
// A part of a page that is drawn again with new data. What the reader has opened, focused or selected stays.
import {h, notice, replace} from "./dom.js";
import {onData} from "./live.js";

const refreshMs = 2000;

// load() returns data; render(data) returns nodes. Returns redraw(), for filters.
export function liveView(main, load, render, minMs = refreshMs) {
  const problem = h("div"), body = h("div", {class: "view"}, h("p", {class: "empty"}, "Loading …"));
  let data = null, shown = "";
  main.append(problem, body);

  function redraw() {
    if (data === null) return;
    const focused = document.activeElement, key = body.contains(focused) ? focused.dataset.key : null;
    const scrolled = new Map([...body.querySelectorAll("[data-scroll]")].map((node) => [node.dataset.scroll, node.scrollTop]));
    replace(body, render(data));
    for (const node of body.querySelectorAll("[data-scroll]")) if (scrolled.get(node.dataset.scroll)) node.scrollTop = scrolled.get(node.dataset.scroll);
    if (key) [...body.querySelectorAll("[data-key]")].find((node) => node.dataset.key === key)?.focus();
  }

  onData(async () => {
    try {
      const next = await load();
      replace(problem);
      const selection = getSelection(), text = JSON.stringify(next);
      data = next;
      // A selection would be lost; equal data would only cost time.
      if ((selection && !selection.isCollapsed && body.contains(selection.anchorNode)) || text === shown) return;
      shown = text;
      redraw();
    } catch (error) {
      replace(problem, notice("error", error.message, data !== null && " The data below are older."));
      if (data === null) replace(body);
      shown = "";
    }
  }, minMs);
  return redraw;
}

const opened = new Map();

export const isOpen = (key, open) => opened.has(key) ? opened.get(key) : open;

// A <details> that stays open or closed.
export function fold(key, open, summary, ...children) {
  return h("details", {open: isOpen(key, open), ontoggle: (event) => opened.set(key, event.target.open)},
    h("summary", {"data-key": key}, summary), children);
}

// Buttons that choose among states, and a text to search. changed() is called.
export function filterBar(states, placeholder, changed) {
  const on = new Set(states.map((s) => s.value));
  const search = h("input", {type: "search", "aria-label": placeholder, placeholder, oninput: () => changed()});
  const buttons = states.map((s) => h("button", {type: "button", class: "filter " + s.value, "aria-pressed": "true", onclick: (event) => {
    if (on.has(s.value)) on.delete(s.value);
    else on.add(s.value);
    event.currentTarget.setAttribute("aria-pressed", String(on.has(s.value)));
    changed();
  }}, s.text || s.value));
  return {node: h("div", {class: "filters"}, buttons, search), has: (state) => on.has(state),
    matches: (...texts) => { const want = search.value.trim().toLowerCase(); return !want || texts.some((t) => String(t).toLowerCase().includes(want)); },
    countIs: (state, n) => { const i = states.findIndex((s) => s.value === state); buttons[i].textContent = `${states[i].text || states[i].value} (${n})`; }};
}
