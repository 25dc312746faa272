// SPDX-License-Identifier: Apache-2.0
// Texts that the browser stores for this site. Where it stores none, the pages work without them.

export function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function store(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // Storage is blocked or full.
  }
}
