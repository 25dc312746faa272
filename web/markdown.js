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

const kept = new Set(["p", "div", "span", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "b", "strong", "i", "em", "u", "s", "code", "pre", "br", "hr", "blockquote", "table", "thead", "tbody", "tr", "th", "td",
  "small", "sub", "sup", "dl", "dt", "dd", "center"]);
const dropped = new Set(["script", "style", "iframe", "object", "embed", "template", "svg", "math", "link", "meta", "title", "head", "noscript", "form", "input", "button", "select", "textarea", "audio", "video", "canvas"]);

// The parsed document has no window: it loads and runs nothing. Its texts and known elements are copied.
export function html(text) {
  const parsed = new DOMParser().parseFromString(text.slice(0, maxText), "text/html");
  let nodes = 0;
  const copy = (node, depth) => [...node.childNodes].map((child) => {
    if (++nodes > maxNodes || depth > maxDepth) return null;
    if (child.nodeType === Node.TEXT_NODE) return child.data;
    const name = child.nodeType === Node.ELEMENT_NODE && child.namespaceURI === "http://www.w3.org/1999/xhtml" ? child.localName : "";
    if (!name || dropped.has(name)) return null;
    if (name === "a") return safeLink(child.getAttribute("href") || "", copy(child, depth + 1));
    if (name === "img") return child.getAttribute("alt") || null;
    return kept.has(name) ? h(name === "center" ? "div" : name, null, copy(child, depth + 1)) : copy(child, depth + 1);
  });
  return copy(parsed.body, 0);
}
