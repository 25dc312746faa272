// SPDX-License-Identifier: Apache-2.0
// Texts of dashboards as elements. Only elements of a fixed list are created, without attributes except for the address
// of a link: nothing is loaded, no style applies, and no script runs.
import {h} from "./dom.js";

const maxText = 20000, maxNodes = 2000, maxDepth = 12;

// A link to another site, or the text alone where the address is not one of the web.
export function safeLink(href, ...children) {
  const url = /^https?:\/\//i.test(href) ? href : null;
  return url ? h("a", {href: url, target: "_blank", rel: "noopener noreferrer"}, children) : h("span", null, children);
}

// `code`, **bold**, *italic*, [text](address), ![text](address), <address>
const inlineParts = /`([^`\n]{1,500})`|\*\*([^*\n]{1,500})\*\*|__([^_\n]{1,500})__|\*([^*\s][^*\n]{0,500})\*|!?\[([^\]\n]{0,500})\]\(([^()\s]{1,1000})(?:\s+"[^"\n]{0,200}")?\)|<(https?:\/\/[^\s<>]{1,1000})>|(https?:\/\/[^\s<>()"'`]{1,1000})/g;

function inline(text) {
  const out = [];
  let from = 0;
  for (const m of text.matchAll(inlineParts)) {
    out.push(text.slice(from, m.index));
    from = m.index + m[0].length;
    const [, code, bold, strong, italic, label, address, angle, bare] = m;
    if (code !== undefined) out.push(h("code", null, code));
    else if (bold ?? strong) out.push(h("b", null, inline(bold ?? strong)));
    else if (italic !== undefined) out.push(h("i", null, inline(italic)));
    else if (address) out.push(safeLink(address, label || address));
    else out.push(safeLink(angle || bare, angle || bare));
  }
  out.push(text.slice(from));
  return out;
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());

// Paragraphs, headings, lists, tables, quotes, code and rules.
export function markdown(text) {
  const lines = text.slice(0, maxText).split("\n"), out = [];
  for (let i = 0; i < lines.length && out.length < maxNodes;) {
    const line = lines[i], heading = /^ {0,3}(#{1,6})\s+(.*)$/.exec(line), fence = /^\s*(```|~~~)/.exec(line);
    const take = (test) => { const from = i; while (i < lines.length && test(lines[i])) i++; return lines.slice(from, i); };
    if (fence) {
      i++;
      const code = take((l) => !l.trim().startsWith(fence[1]));
      i++;
      out.push(h("pre", null, code.join("\n")));
    } else if (heading) {
      i++;
      out.push(h(`h${Math.min(6, heading[1].length + 2)}`, null, inline(heading[2].replace(/\s#+\s*$/, ""))));
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      i++;
      out.push(h("hr"));
    } else if (/^\s*[-*+]\s/.test(line)) {
      out.push(h("ul", null, take((l) => /^\s*[-*+]\s/.test(l)).map((l) => h("li", null, inline(l.replace(/^\s*[-*+]\s+/, ""))))));
    } else if (/^\s*\d{1,9}[.)]\s/.test(line)) {
      out.push(h("ol", null, take((l) => /^\s*\d{1,9}[.)]\s/.test(l)).map((l) => h("li", null, inline(l.replace(/^\s*\d+[.)]\s+/, ""))))));
    } else if (/^\s*>/.test(line)) {
      out.push(h("blockquote", null, take((l) => /^\s*>/.test(l)).map((l) => h("p", null, inline(l.replace(/^\s*>\s?/, ""))))));
    } else if (line.includes("|") && /^[\s|:-]+$/.test(lines[i + 1] || "") && (lines[i + 1] || "").includes("-")) {
      const rows = take((l) => l.includes("|"));
      out.push(h("table", null, h("thead", null, h("tr", null, cellsOf(rows[0]).map((c) => h("th", null, inline(c))))),
        h("tbody", null, rows.slice(2).map((r) => h("tr", null, cellsOf(r).map((c) => h("td", null, inline(c))))))));
    } else if (!line.trim()) {
      i++;
    } else {
      i++;
      out.push(h("p", null, inline([line, ...take((l) => l.trim() && !/^\s*([-*+]\s|#{1,6}\s|>|```|~~~|\d+[.)]\s)/.test(l))].join("\n"))));
    }
  }
  return out;
}

// --- HTML ---

const kept = new Set(["p", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "b", "strong", "i", "em", "u", "s", "code", "pre", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "small", "sub", "sup", "dl", "dt", "dd"]);
const single = new Set(["br", "hr"]);
// Elements that are left out with all that they contain.
const dropped = new Set(["script", "style", "iframe", "object", "template", "svg", "math", "title", "head", "noscript", "select", "textarea", "audio", "video", "canvas"]);
const entities = {amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0"};

const decoded = (text) => text.replace(/&(?:#(\d{1,6})|#x([0-9a-f]{1,5})|([a-z]{2,4}));/gi, (match, ten, hex, name) => name ? Object.hasOwn(entities, name) ? entities[name] : match : String.fromCodePoint(ten ? Number(ten) : parseInt(hex, 16)));

// The position after the ">" of the tag that begins at i, or -1: quotes can contain ">".
function endOfTag(text, i) {
  for (let quote = ""; i < text.length; i++) {
    if (quote) quote = text[i] === quote ? "" : quote;
    else if (text[i] === '"' || text[i] === "'") quote = text[i];
    else if (text[i] === ">") return i + 1;
  }
  return -1;
}

const attribute = (tag, name) => decoded((new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, "i").exec(tag) || []).slice(1).find((v) => v !== undefined) ?? "");

// The text is not given to the parser of the browser: known tags become elements without attributes, and others disappear.
export function html(whole) {
  const text = whole.slice(0, maxText), lower = text.toLowerCase(), root = {name: "", nodes: []}, open = [root];
  let made = 0;
  const top = () => open[open.length - 1], close = () => { const e = open.pop(); top().nodes.push(e.make(e.nodes)); };
  for (let i = 0; i < text.length && made < maxNodes; made++) {
    const tag = /^<(\/?)([a-z][a-z0-9]{0,20})/i.exec(text.slice(i, i + 24));
    if (!tag) {
      const comment = text.startsWith("<!--", i) ? text.indexOf("-->", i) : -1, next = text.indexOf("<", i + 1), end = comment >= 0 ? comment + 3 : next < 0 ? text.length : next;
      if (comment < 0) top().nodes.push(decoded(text.slice(i, end)));
      i = end;
      continue;
    }
    const name = tag[2].toLowerCase(), end = endOfTag(text, i), from = i;
    if (end < 0) break;
    i = end;
    if (tag[1]) {
      if (open.some((e) => e.name === name)) { while (top().name !== name) close(); close(); }
    } else if (dropped.has(name)) {
      const after = lower.indexOf(`</${name}`, end), last = after < 0 ? -1 : endOfTag(text, after);
      i = last < 0 ? text.length : last;
    } else if (single.has(name)) {
      top().nodes.push(h(name));
    } else if (open.length < maxDepth && (kept.has(name) || name === "a")) {
      const href = name === "a" && attribute(text.slice(from, end), "href");
      open.push({name, nodes: [], make: (nodes) => name === "a" ? safeLink(href, nodes) : h(name, null, nodes)});
    }
  }
  while (open.length > 1) close();
  return root.nodes;
}
