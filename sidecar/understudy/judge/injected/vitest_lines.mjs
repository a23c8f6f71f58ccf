// A coverage provider of vitest that writes what V8 counted for each test file: which functions and blocks ran, with the
// source as it was executed, whose source map leads to the lines of the file. Test files of one worker may share modules,
// so the worker is written, too. Uses built-in modules only.
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import path from "node:path";
import { fileURLToPath } from "node:url";

const { folder, files } = JSON.parse(process.env.UNDERSTUDY_PROBE_LINES ?? "{}");
const wanted = new Set(files ?? []);
// vitest may load this module more than once in a worker.
const held = Symbol.for("lines");
const worker = Symbol.for("worker");

const post = (method, parameters) =>
  new Promise((resolve, reject) => {
    globalThis[held].post(method, parameters, (error, result) => (error ? reject(error) : resolve(result)));
  });

const fileOf = (url) => {
  const name = url.startsWith("file:") ? fileURLToPath(url.split("?")[0]) : url.split("?")[0];
  return wanted.has(name) ? name : undefined;
};

export default {
  async startCoverage() {
    if (globalThis[held]) return;
    globalThis[worker] = randomUUID();
    globalThis[held] = new Session();
    globalThis[held].connect();
    await post("Debugger.enable");
    await post("Profiler.enable");
    await post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  },
  async takeCoverage() {
    if (!globalThis[held]) return undefined;
    const { result } = await post("Profiler.takePreciseCoverage");
    const found = [];
    for (const script of result) {
      const file = fileOf(script.url);
      if (!file) continue;
      const { scriptSource } = await post("Debugger.getScriptSource", { scriptId: script.scriptId });
      found.push({ file, source: scriptSource, functions: script.functions });
    }
    const report = { test: globalThis.__vitest_worker__?.filepath, worker: globalThis[worker], scripts: found };
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, `${randomUUID()}.json`), JSON.stringify(report), { mode: 0o600 });
    return undefined;
  },
  stopCoverage() {},
  getProvider() {
    return {
      name: "lines",
      initialize(context) {
        this.options = { ...context.config.coverage, reporter: [], reportsDirectory: folder };
      },
      resolveOptions() {
        return this.options;
      },
      clean() {},
      onAfterSuiteRun() {},
      generateCoverage() {
        return {};
      },
      reportCoverage() {},
    };
  },
};
