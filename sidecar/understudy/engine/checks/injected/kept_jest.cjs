// Keep jest loaded and run its tests again after a file changed: `node kept_jest.cjs`. The first line of standard
// input is a JSON object with the arguments of `jest`, which write a report; each line after it has a word, which is
// printed on a line of its own when the report is written.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const { createInterface } = require("node:readline");

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
  const { runCLI } = createRequire(jest)("@jest/core");
  process.env.NODE_ENV ??= "test";
  const options = await buildArgv(job.arguments);
  for (let request = await next(); request; request = await next()) {
    await runCLI(options, [process.cwd()]);
    process.stdout.write(`\n${request.word}\n`);
  }
  process.exit(0);
})();
