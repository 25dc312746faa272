// SPDX-License-Identifier: Apache-2.0
// Elements. Texts become text nodes: no string is ever parsed as HTML, whatever a label contains.

const asProperty = new Set(["value", "checked", "disabled", "selected", "readOnly", "hidden", "open"]);

// h("a", {class: "x", href: "query", onclick: fn}, "text", node, [nodes], null)
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (asProperty.has(key)) node[key] = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

// {name: "up", labels…} as up{job="x"}, with the parts colored.
export function seriesNode(labels) {
  const pairs = Object.entries(labels).filter(([name]) => name !== "__name__");
  return h("span", {class: "series"},
    labels.__name__ && h("span", {class: "metric"}, labels.__name__),
    (pairs.length > 0 || !labels.__name__) && ["{", pairs.map(([name, value], i) =>
      [i > 0 && ", ", h("span", {class: "label-name"}, name), "=", h("span", {class: "label-value"}, JSON.stringify(value))]), "}"]);
}

export function labelList(labels, skip = []) {
  const shown = Object.entries(labels || {}).filter(([name]) => !skip.includes(name));
  return shown.length > 0 && h("span", {class: "labels"}, shown.map(([name, value]) =>
    h("span", {class: "label"}, h("span", {class: "label-name"}, name), "=", h("span", {class: "label-value"}, JSON.stringify(value)))));
}

// A table whose cells carry the name of their column, for narrow screens. rows: arrays of cells, or {class, cells, note}; a note is
// a line below its row.
export function table(columns, rows, props) {
  return h("div", {class: "scroll"}, h("table", props || {},
    h("thead", null, h("tr", null, columns.map((c) => h("th", {scope: "col", class: c.class, title: c.title}, c.name || c)))),
    h("tbody", null, rows.map((row) => [h("tr", {class: [row.class, row.note && "noted"].filter((t) => t).join(" ") || null}, (row.cells || row).map((cell, i) =>
      h("td", {"data-label": columns[i].name || columns[i], class: columns[i].class}, cell))),
    row.note && h("tr", {class: ["note", row.class].filter((t) => t).join(" ")}, h("td", {colspan: columns.length}, row.note))]))));
}

export const badge = (kind, text) => h("span", {class: "badge " + kind}, text);
export const notice = (kind, ...text) => h("div", {class: "notice " + kind, role: kind === "error" ? "alert" : "status"}, text);
export const empty = (...text) => h("p", {class: "empty"}, text);
