// SPDX-License-Identifier: Apache-2.0
// The HTTP API of Prometheus. Addresses are relative to the page, so any route prefix works.

const longQuery = 2000; // characters; longer parameters are posted

// Without a user and password: requests must not contain those of the address bar.
export const addressOf = (path) => new URL(path, location.origin + location.pathname).href;

// The data of a response. Throws an Error with a text for the reader.
export async function get(path, params, signal) {
  const body = await getAll(path, params, signal);
  return body.data;
}

// {data, warnings, infos}
export async function getAll(path, params, signal) {
  const form = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {}))
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") form.append(key, one);
  const text = form.toString(), long = text.length > longQuery;
  return request(path + (text && !long ? "?" + text : ""), long ? {method: "POST", body: form, signal} : {signal, cache: "no-store"});
}

// The data of the response to an object as JSON.
export async function post(path, object) {
  const body = await request(path, {method: "POST", body: JSON.stringify(object), headers: {"Content-Type": "application/json"}});
  return body.data;
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(addressOf("api/v1/" + path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not respond.");
  }
  const answer = await response.text();
  let body;
  try {
    body = JSON.parse(answer);
  } catch {
    throw new Error(answer.trim().slice(0, 500) || `The server answers with status ${response.status}.`);
  }
  if (body.status !== "success") {
    const error = new Error(body.error || `The server answers with status ${response.status}.`);
    error.type = body.errorType;
    throw error;
  }
  return body;
}
