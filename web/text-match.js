// SPDX-License-Identifier: Apache-2.0
// Regular expressions of dashboards. They run in a worker, which is ended when one takes too long: an expression from
// outside can need time that grows exponentially with the text.

const timeoutMs = 3000, maxPattern = 1000, maxText = 2000;
let worker = null, last = Promise.resolve();

// The worker when it is ready: its start does not count as time of an expression.
function started() {
  worker ||= new Promise((resolve, reject) => {
    const made = new Worker(new URL("text-match-worker.js", import.meta.url));
    made.onmessage = () => resolve(made);
    made.onerror = () => { worker = null; reject(new Error("The worker for regular expressions cannot be started.")); };
  });
  return worker;
}

async function run(message) {
  const used = await started();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      used.terminate();
      worker = null;
      reject(new Error(`The regular expression takes too long: ${message.source.slice(0, 100)}`));
    }, timeoutMs);
    used.onmessage = ({data}) => {
      clearTimeout(timer);
      if (data.error) reject(new Error(`The regular expression is wrong: ${data.error}`));
      else resolve(data.found);
    };
    used.postMessage(message);
  });
}

// "/source/flags", or the source of an expression that matches whole texts.
function expressionOf(text) {
  const match = /^\/(.*)\/([a-z]*)$/s.exec(text);
  return match ? {source: match[1], flags: match[2].replace(/[^imsu]/g, "")} : {source: `^(?:${text})$`, flags: ""};
}

// For each text null, or {all, first, text, value}: the match, its first group, and the groups with these names.
export function matchTexts(expression, texts) {
  const {source, flags} = expressionOf(expression);
  if (source.length > maxPattern) return Promise.reject(new Error(`A regular expression has more than ${maxPattern} characters.`));
  const next = last.then(() => run({source, flags, texts: texts.map((t) => t.slice(0, maxText))}));
  last = next.catch(() => {});
  return next;
}
