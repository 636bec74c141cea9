// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's trace processor under node: what `self` is in a browser's worker, as far as the engine of the viewer in this
// folder needs it. Requests (TraceProcessorRpcStream) come from stdin; the answers go to stdout.

"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");

const folder = process.argv[2];
const read = url => fs.readFileSync(path.join(folder, path.basename(url)));

// The engine loads its WebAssembly by this.
class XMLHttpRequest {
  open(method, url) {
    this.url = url;
  }
  send() {
    this.response = new Uint8Array(read(this.url)).buffer;
    this.status = 200;
    if (this.onload) this.onload();
  }
}

const port = {postMessage: answer => fs.writeSync(1, answer)};
const worker = {
  Response, TextDecoder, TextEncoder, URL, Uint8Array, XMLHttpRequest, crypto, performance, setTimeout, clearTimeout,
  WorkerGlobalScope: class {},
  console: {log() {}, warn: text => console.error(text), error: text => console.error(text)},
  fetch: async url => new Response(read(url), {headers: {"Content-Type": "application/wasm"}}),
  importScripts() {},
  location: {href: `file://${folder}/`},
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(read("engine_bundle.js").toString(), worker);
worker.onmessage({data: port});

// It is ready at once, since it loads without waiting.
setImmediate(() => {
  process.stdin.on("data", chunk => port.onmessage({data: new Uint8Array(chunk)}));
  process.stdin.on("end", () => process.exit(0));
});
