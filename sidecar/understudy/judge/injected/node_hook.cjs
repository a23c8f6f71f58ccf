// Lists the source files below the user's checkout that the Node programs of a check load. NODE_OPTIONS makes
// `node --require` load this module, also in the workers of test runners. Uses built-in modules only.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const nodeModule = require("node:module");
const { fileURLToPath } = require("node:url");

const { folder, root } = globalThis.SETTINGS; // each run has a copy with values in this place
const sources = /\.(?:[cm]?[jt]sx?|vue|svelte|json|node)$/;

if (folder && root) {
  const realRoot = fs.realpathSync(root) + path.sep;
  const { realpathSync, writeFileSync } = fs;
  const found = new Set();

  const record = (file) => {
    let name = file instanceof URL || (typeof file === "string" && file.startsWith("file:")) ? fileURLToPath(file) : file;
    if (typeof name !== "string") return;
    name = name.split("?")[0];
    if (sources.test(name) && path.isAbsolute(name)) found.add(name);
  };

  // Bundling runners (vitest) read sources and transform them instead of requiring them.
  for (const [holder, names] of [[fs, ["readFileSync", "readFile"]], [fs.promises, ["readFile"]]]) {
    for (const name of names) {
      const original = holder[name];
      holder[name] = function (file, ...rest) {
        try {
          record(file);
        } catch {
          // the argument is not a path: the original function reports that
        }
        return original.call(this, file, ...rest);
      };
    }
  }
  nodeModule.syncBuiltinESMExports();
  // Node reads native ES modules internally; newer versions have hooks for them.
  if (typeof nodeModule.registerHooks === "function") {
    nodeModule.registerHooks({
      load(url, context, next) {
        record(url);
        return next(url, context);
      },
    });
  }

  const report = () => {
    for (const name of Object.keys(require.cache)) found.add(name);
    const files = new Set();
    for (const name of found) {
      let resolved;
      try {
        resolved = realpathSync(name);
      } catch {
        continue; // deleted since
      }
      if (resolved.startsWith(realRoot) && !resolved.includes(`${path.sep}node_modules${path.sep}`)) files.add(resolved);
    }
    const name = `${process.pid}-${Math.random().toString(36).slice(2)}.node.json`;
    try {
      writeFileSync(path.join(folder, name), JSON.stringify({ files: [...files].slice(0, 1000) }), { mode: 0o600 });
    } catch {
      // the report folder was deleted: the check is over
    }
  };
  process.once("exit", report);
}
