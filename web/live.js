// SPDX-License-Identifier: Apache-2.0
// Calls functions when there are new data: by server-sent events, or every few seconds where these
// do not arrive. A page that is not visible has no connection and reads nothing.

import {addressOf} from "./api.js";

// An EventSource whose connection is shared with the other pages of the browser.
class SharedEvents {
  static worker = null;

  constructor(url, onfail) {
    SharedEvents.worker ||= new SharedWorker(new URL("events-worker.js", import.meta.url));
    SharedEvents.worker.onerror = onfail;
    this.readyState = EventSource.CONNECTING;
    const {port} = SharedEvents.worker;
    port.onmessage = ({data: kind}) => {
      this.readyState = kind === "data" ? EventSource.OPEN : kind === "closed" ? EventSource.CLOSED : EventSource.CONNECTING;
      if (kind === "data") this.onmessage();
      else this.onerror();
    };
    port.postMessage(url);
  }

  close() {
    SharedEvents.worker.port.onmessage = null;
    SharedEvents.worker.port.postMessage(null);
  }
}

let shared = typeof SharedWorker === "function";

function openEvents() {
  if (shared) {
    try {
      return new SharedEvents(addressOf("events"), () => { shared = false; stop(); start(); });
    } catch {
      shared = false;
    }
  }
  return new EventSource(addressOf("events"));
}

const pollMs = 5000;
const readers = [];
let source = null, timer = null, polls = false, onState = () => {};

// The server has no events.
export function pollOnly() { polls = true; }

// read() is called at once and with new data, never twice at a time. minMs: shortest time between two calls.
export function onData(read, minMs = 1000) {
  const reader = {read, minMs, last: 0, busy: false, again: false, timer: null};
  readers.push(reader);
  run(reader);
  if (readers.length === 1) start();
}

export function onConnection(fn) { onState = fn; }

async function run(reader) {
  if (reader.busy) {
    reader.again = true;
    return;
  }
  const wait = reader.last + reader.minMs - Date.now();
  if (wait > 0) {
    if (!reader.timer) reader.timer = setTimeout(() => { reader.timer = null; run(reader); }, wait);
    return;
  }
  reader.busy = true;
  reader.again = false;
  try {
    await reader.read();
  } finally {
    reader.busy = false;
    reader.last = Date.now();
  }
  if (reader.again) run(reader);
}

const runAll = () => readers.forEach(run);

function poll(on) {
  if (!on) clearInterval(timer);
  timer = on ? timer || setInterval(runAll, pollMs) : null;
}

function start() {
  if (document.hidden || source) return;
  poll(true);
  if (polls) return;
  source = openEvents();
  source.onmessage = () => { poll(false); onState("live"); runAll(); };
  source.onerror = () => {
    // The browser connects again by itself, except after an answer with an error.
    onState("waiting");
    poll(true);
    if (source && source.readyState === EventSource.CLOSED) source = null;
  };
}

function stop() {
  poll(false);
  if (source) source.close();
  source = null;
}

// A stream that was refused is opened again after a minute.
setInterval(() => { if (readers.length && !source && !polls) start(); }, 60000);
document.addEventListener("visibilitychange", () => {
  if (!readers.length) return;
  if (document.hidden) stop();
  else { start(); runAll(); }
});
window.addEventListener("pagehide", stop);
window.addEventListener("pageshow", (event) => { if (event.persisted && readers.length) { start(); runAll(); } });
