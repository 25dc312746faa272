// SPDX-License-Identifier: Apache-2.0
// What can follow at a position of a PromQL expression.

const grouping = new Set(["by", "without", "on", "ignoring", "group_left", "group_right"]);
const word = /[A-Za-z0-9_:.]/;

// The end of the string that begins at i, or the length of the text.
function endOfString(text, i) {
  const quote = text[i++];
  while (i < text.length && text[i] !== quote) i += text[i] === "\\" && quote !== "`" ? 2 : 1;
  return i;
}

// {kind, from, prefix, metric, label}; kind: "expr", "label" (in a selector), "grouping" (in by (…)), "value", "none".
// from: where the word at the position begins. metric: of the selector or before the parentheses.
export function contextAt(text, pos) {
  const before = text.slice(0, pos), open = [];
  let lastWord = "", lastLabel = "", i = 0, selector = "";
  while (i < before.length) {
    const c = before[i];
    if (c === "#") {
      i = before.indexOf("\n", i);
      if (i < 0) return {kind: "none", from: pos, prefix: ""};
    } else if (c === '"' || c === "'" || c === "`") {
      const end = endOfString(before, i), inside = open[open.length - 1];
      if (end >= before.length) {
        const kind = inside && inside.kind === "{" && lastLabel ? "value" : "none";
        return {kind, from: i + 1, prefix: before.slice(i + 1), metric: inside ? inside.metric : "", label: lastLabel};
      }
      i = end + 1;
      lastWord = "";
    } else if (word.test(c)) {
      let end = i;
      while (end < before.length && word.test(before[end])) end++;
      lastWord = before.slice(i, end);
      const inside = open[open.length - 1];
      if (inside && inside.kind === "{") lastLabel = lastWord;
      else if (!grouping.has(lastWord)) selector = lastWord;
      if (end === before.length) break;
      i = end;
    } else {
      if (c === "{") open.push({kind: "{", metric: lastWord});
      else if (c === "(") open.push({kind: grouping.has(lastWord) ? "by" : "("});
      else if (c === "[") open.push({kind: "["});
      else if (c === "}" || c === ")" || c === "]") open.pop();
      if (!/\s/.test(c)) lastWord = "";
      i++;
    }
  }
  const prefix = /[A-Za-z0-9_:.]*$/.exec(before)[0], from = pos - prefix.length;
  const inside = open[open.length - 1], kind = inside ? inside.kind : "(";
  if (kind === "[" || /^[0-9.]/.test(prefix)) return {kind: "none", from, prefix};
  if (kind === "{") {
    const head = before.slice(0, from).trimEnd();
    return {kind: /[{,]$/.test(head) ? "label" : "none", from, prefix, metric: inside.metric};
  }
  if (kind === "by") return {kind: "grouping", from, prefix, metric: firstMetric(text)};
  return {kind: "expr", from, prefix, metric: selector};
}

// A name that is followed by neither "(" nor a keyword: good enough to suggest its labels.
function firstMetric(text) {
  for (const match of text.matchAll(/[A-Za-z_:][A-Za-z0-9_:]*/g)) {
    const after = text.slice(match.index + match[0].length).trimStart();
    if (!after.startsWith("(") && !grouping.has(match[0]) && /^[{[)]|^$|^[-+*/%^<>=!]/.test(after)) return match[0];
  }
  return "";
}
