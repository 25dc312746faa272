// SPDX-License-Identifier: Apache-2.0
// The input of an expression, with completion of metrics, functions, labels, values and earlier queries.
import {get} from "./api.js";
import {h, replace} from "./dom.js";
import {contextAt} from "./promql.js";
import {store, stored} from "./storage.js";

const shownAtOnce = 60, keepMs = 30000, maxNames = 20000, maxHistory = 50, historyKey = "gpuscale.queries";
const keywords = ["anchored", "and", "bool", "by", "group_left", "group_right", "ignoring", "offset", "on", "or", "smoothed", "unless",
  "without"];
const cache = new Map();

function cached(key, load) {
  const known = cache.get(key);
  if (known && Date.now() - known.at < keepMs) return known.value;
  const value = load().catch(() => { cache.delete(key); return []; });
  cache.set(key, {at: Date.now(), value});
  return value;
}

export function history() {
  try {
    return JSON.parse(stored(historyKey)).filter((q) => typeof q === "string");
  } catch {
    return [];
  }
}
export function remember(query) {
  if (query.trim())
    store(historyKey, JSON.stringify([query, ...history().filter((q) => q !== query)].slice(0, maxHistory)));
}

// --- what there is ---

const metricNames = () => cached("names", () => get("label/__name__/values", {limit: maxNames}));
const metadata = () => cached("metadata", () => get("metadata", {limit_per_metric: 1}));
const functions = () => cached("functions", async () => {
  const features = await get("features");
  return Object.entries(features.promql_functions || {}).filter(([, on]) => on).map(([name]) => name);
});
const operators = () => cached("operators", async () => {
  const features = await get("features");
  return Object.entries(features.promql_operators || {}).filter(([, on]) => on).map(([name]) => name)
    .filter((name) => /^[a-z]/.test(name) && !keywords.includes(name));
});
const matchOf = (metric) => metric ? {"match[]": `{__name__=${JSON.stringify(metric)}}`} : {};
async function labelNames(metric) {
  const of = metric ? await cached("labels " + metric, () => get("labels", matchOf(metric))) : [];
  const all = of.length ? of : await cached("labels", () => get("labels", {limit: maxNames}));
  return all.filter((name) => name !== "__name__");
}
const labelValues = (label, metric) => cached(`values ${label} ${metric}`, () =>
  get(`label/${encodeURIComponent(label)}/values`, {...matchOf(metric), limit: maxNames}));

// Beginnings first, then words, then what merely contains the text.
function rank(name, text) {
  const at = name.toLowerCase().indexOf(text);
  return at < 0 ? -1 : at === 0 ? 0 : /[_:.]/.test(name[at - 1]) ? 1 : 2;
}

function matching(items, prefix) {
  const text = prefix.toLowerCase();
  return items.map((item) => ({...item, rank: rank(item.text, text)})).filter((item) => item.rank >= 0)
    .sort((a, b) => a.rank - b.rank || a.order - b.order || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0));
}

const make = (names, kind, order, more) => names.map((text) => ({text, kind, order, ...more}));
// A name with other characters than a plain one has to be quoted.
const plain = (name) => /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name);

async function suggestions(context) {
  switch (context.kind) {
  case "label":
    return make((await labelNames(context.metric)).filter(plain), "label", 0, {after: "="});
  case "grouping":
    return make((await labelNames(context.metric)).filter(plain), "label", 0);
  case "value":
    return make(await labelValues(context.label, context.metric), "value", 0);
  case "expr": {
    const [names, help, fns, ops] = await Promise.all([metricNames(), metadata(), functions(), operators()]);
    return [
      ...names.filter((name) => /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name)).map((text) => {
        const about = help[text] && help[text][0];
        return {text, order: 0, kind: about ? about.type : "metric", help: about ? about.help : ""};
      }),
      ...make(fns, "function", 1, {after: "("}), ...make(ops, "aggregation", 1, {after: "("}), ...make(keywords, "keyword", 2),
    ];
  }
  default:
    return [];
  }
}

// --- the input ---

let inputs = 0;

// {node, value(), focus()}; run() is called for Enter.
export function expressionInput(value, run) {
  const listId = `completion-${++inputs}`;
  let items = [], selected = -1, context = null, asked = 0;
  const input = h("textarea", {rows: 1, class: "expression", spellcheck: "false", autocomplete: "off", autocapitalize: "off",
    "aria-label": "PromQL expression", role: "combobox", "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list",
    placeholder: "PromQL expression, for example avg by (gpu) (DCGM_FI_DEV_GPU_UTIL)", value});
  const list = h("ul", {id: listId, class: "completion", role: "listbox", hidden: true});
  const node = h("div", {class: "expression-box"}, input, list);

  const close = () => { list.hidden = true; items = []; selected = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };

  function select(i) {
    selected = i;
    [...list.children].forEach((li, k) => li.setAttribute("aria-selected", String(k === i)));
    if (i >= 0) {
      input.setAttribute("aria-activedescendant", `${listId}-${i}`);
      list.children[i].scrollIntoView({block: "nearest"});
    }
  }

  function show(found) {
    items = found.slice(0, shownAtOnce);
    if (!items.length || (items.length === 1 && items[0].text === context.prefix)) return close();
    replace(list, items.map((item, i) => h("li", {id: `${listId}-${i}`, role: "option", "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); take(i); }},
      h("span", {class: "text"}, item.text), h("span", {class: "kind"}, item.kind), item.help && h("span", {class: "help"}, item.help))));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    select(-1);
  }

  async function suggest(always) {
    const number = ++asked;
    context = contextAt(input.value, input.selectionStart);
    if (context.kind === "none" || (context.kind === "expr" && !context.prefix && !always)) return close();
    const found = matching(await suggestions(context), context.prefix);
    if (number === asked && document.activeElement === input) show(found);
  }

  function take(i) {
    const item = items[i];
    if (item.kind === "earlier query") {
      input.value = item.text;
    } else {
      const rest = input.value.slice(input.selectionStart);
      const text = context.kind === "value" ? JSON.stringify(item.text).slice(1, -1) : item.text;
      let after = item.after && !rest.startsWith(item.after) ? item.after : "";
      if (after === "=") after = '="';
      const head = input.value.slice(0, context.from) + text + after;
      input.value = head + rest;
      input.setSelectionRange(head.length, head.length);
    }
    close();
    fit();
    input.focus();
    if (item.after) suggest(true);
  }

  function showHistory() {
    context = {prefix: ""};
    ++asked;
    show(history().map((text) => ({text, kind: "earlier query"})));
    input.focus();
  }

  const fit = () => { input.style.height = "auto"; input.style.height = `${input.scrollHeight + 2}px`; };

  input.addEventListener("input", () => { fit(); suggest(false); });
  input.addEventListener("blur", close);
  input.addEventListener("click", close);
  input.addEventListener("keydown", (event) => {
    const visible = !list.hidden;
    if (event.key === "Escape" && visible) {
      close();
    } else if (event.key === " " && event.ctrlKey) {
      suggest(true);
    } else if (visible && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const step = event.key === "ArrowDown" ? 1 : -1;
      select(selected < 0 && step < 0 ? items.length - 1 : (selected + step + items.length) % items.length);
    } else if (event.key === "ArrowUp" && !input.value.includes("\n") && history().length) {
      showHistory();
    } else if (visible && (event.key === "Tab" || (event.key === "Enter" && selected >= 0))) {
      take(Math.max(selected, 0));
    } else if (event.key === "Enter" && !event.shiftKey) {
      close();
      ++asked;
      run();
    } else {
      return;
    }
    event.preventDefault();
  });
  requestAnimationFrame(fit);
  return {node, value: () => input.value, focus: () => input.focus(), showHistory,
    set: (text) => { input.value = text; fit(); }};
}
