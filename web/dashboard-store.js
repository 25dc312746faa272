// SPDX-License-Identifier: Apache-2.0
// Where dashboards are: in ConfigMaps of the cluster, or, where no cluster can be written, in the session of the browser.
import {get, post} from "./api.js";
import {limits} from "./dashboard-model.js";

const prefix = "gpuscale.dashboard.", maxSession = 20;

// {dashboards: [{namespace, name, file, title, uid, bytes, imported}], omitted}; null: there is no cluster to store them.
export async function listDashboards() {
  const found = await get("gpuscale/dashboards");
  return found.stored ? found : null;
}

const sessionKeys = () => {
  try {
    return Object.keys(sessionStorage).filter((key) => key.startsWith(prefix));
  } catch {
    return []; // storage is blocked
  }
};

export function sessionDashboards() {
  return sessionKeys().map((key) => ({session: key.slice(prefix.length), title: JSON.parse(sessionStorage.getItem(key)).title}));
}

// A name for objects of Kubernetes.
export const nameOf = (title) => title.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60).replace(/-+$/, "") || "dashboard";

// Returns the key. Throws an Error when the browser stores nothing.
export function storeInSession(title, text) {
  const keys = sessionKeys(), name = nameOf(title);
  if (keys.length >= maxSession && !keys.includes(prefix + name)) sessionStorage.removeItem(keys[0]);
  try {
    sessionStorage.setItem(prefix + name, JSON.stringify({title, text}));
  } catch {
    throw new Error("The browser stores no more dashboards in this session.");
  }
  return name;
}

export const removeFromSession = (session) => sessionStorage.removeItem(prefix + session);

export const storeInCluster = (namespace, name, text, replace) => post("gpuscale/dashboards", {namespace, name, dashboard: text, replace});

export const addressOfDashboard = (d) => d.session !== undefined ? `dashboard?${new URLSearchParams({session: d.session})}` : `dashboard?${new URLSearchParams({name: `${d.namespace}/${d.name}`, file: d.file})}`;

// The text of the dashboard of an address.
export async function readText(params) {
  if (params.has("session")) {
    const item = sessionKeys().includes(prefix + params.get("session")) && sessionStorage.getItem(prefix + params.get("session"));
    if (!item) throw new Error("The dashboard was imported in another session of the browser. Import it again.");
    return JSON.parse(item).text;
  }
  const [namespace, name] = (params.get("name") || "").split("/");
  if (!namespace || !name) throw new Error("The address names no dashboard: /dashboard?name=NAMESPACE/NAME&file=KEY");
  const {text} = await get("gpuscale/dashboards", {namespace, name, file: params.get("file") || `${name}.json`});
  if (text === undefined) throw new Error("Only gpuscale up reads dashboards of ConfigMaps.");
  if (text.length > limits.bytes) throw new Error("The dashboard is too large.");
  return text;
}
