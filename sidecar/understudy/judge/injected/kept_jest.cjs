// Keep jest loaded and run its tests again after a file changed: `node kept_jest.cjs`. The first line of standard
// input is a JSON object with the arguments of `jest`, which write a report. Each line after it has a word, which is
// printed on a line of its own when the report is written, perhaps the test files to run, and whether to stop after the
// first file with a failure.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const { createInterface } = require("node:readline");

// Also the order of the test files: jest's own depends on what earlier runs showed.
module.exports = class {
  sort(tests) {
    return [...tests].sort((one, other) => (one.path < other.path ? -1 : 1));
  }
  allFailedTests(tests) {
    return tests;
  }
  cacheResults() {}
};

// Outside its watch mode, jest exits at the first failure instead of writing a report.
const stopsWithReport = (core) => {
  try {
    createRequire(core)("jest-watcher").TestWatcher.prototype.isWatchMode = () => true;
    return true;
  } catch {
    return false;
  }
};

(async () => {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    return done ? undefined : JSON.parse(value);
  };
  const job = await next();
  const jest = createRequire(path.join(process.cwd(), "package.json")).resolve("jest");
  const cli = createRequire(jest).resolve("jest-cli");
  // Version 29 has it in a file that the package does not export.
  const buildArgv = require(cli).buildArgv ?? require(path.join(path.dirname(cli), "run.js")).buildArgv;
  const core = createRequire(jest).resolve("@jest/core");
  const { runCLI } = require(core);
  const stops = stopsWithReport(core);
  process.env.NODE_ENV ??= "test";
  const options = { ...(await buildArgv(job.arguments)), runInBand: true, testSequencer: __filename };
  for (let request = await next(); request; request = await next()) {
    const chosen = request.tests ? { _: request.tests, runTestsByPath: true } : {};
    await runCLI({ ...options, ...chosen, bail: request.stop && stops ? 1 : 0 }, [process.cwd()]);
    process.stdout.write(`\n${request.word}\n`);
  }
  process.exit(0);
})();
