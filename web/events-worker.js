// SPDX-License-Identifier: Apache-2.0
// One stream of events for all pages of a browser. Browsers allow six connections to a host, and each stream takes one:
// without this worker, the seventh page would never load.
const pages = new Set();
let source = null;

const send = (message) => { for (const port of pages) port.postMessage(message); };

function open(url) {
  source = new EventSource(url);
  source.onmessage = () => send("data");
  source.onerror = () => {
    // The browser connects again by itself, except after an answer with an error.
    const closed = source.readyState === EventSource.CLOSED;
    if (closed) source = null;
    send(closed ? "closed" : "waiting");
  };
}

// A page sends the address of the events when it becomes visible, and null when it does not need them any more.
self.onconnect = ({ports: [port]}) => {
  port.onmessage = ({data: url}) => {
    if (url !== null) pages.add(port);
    else pages.delete(port);
    if (!pages.size && source) {
      source.close();
      source = null;
    } else if (pages.size && !source) {
      open(url);
    } else if (url !== null && source.readyState === EventSource.OPEN) {
      port.postMessage("data");
    }
  };
};
