// SPDX-License-Identifier: Apache-2.0
// Applies a regular expression to texts: see text-match.js.

self.onmessage = ({data: {source, flags, texts}}) => {
  try {
    const expression = new RegExp(source, flags);
    self.postMessage({found: texts.map((t) => {
      const match = expression.exec(t);
      return match && {all: match[0], first: match[1], text: match.groups?.text, value: match.groups?.value};
    })});
  } catch (error) {
    self.postMessage({error: error.message});
  }
};

self.postMessage({});
