// Keep vitest running and run its tests again after a file changed: `node kept_vitest.mjs`. The first line of standard
// input is a JSON object with the arguments of `vitest` and the report to write; each line after it has a changed file
// and a word, which is printed on a line of its own when the report is written.
import { createRequire } from "node:module";
import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};

const job = await next();
const from = createRequire(path.join(process.cwd(), "package.json"));
const { createVitest, parseCLI } = await import(pathToFileURL(from.resolve("vitest/node")).href);
const { filter, options } = parseCLI(["vitest", ...job.arguments]);
const vitest = await createVitest("test", {
  ...options,
  watch: false,
  run: true,
  reporters: ["json"],
  outputFile: { json: job.report },
}, { server: { watch: null } });
// Version 3 calls it init.
await (vitest.standalone ?? vitest.init)?.call(vitest);
const specifications = await vitest.globTestSpecifications(filter);

for (let request = await next(); request; request = await next()) {
  vitest.invalidateFile(request.changed);
  vitest.state.errorsSet?.clear();
  await vitest.runTestSpecifications(specifications, true);
  process.stdout.write(`\n${request.word}\n`);
}
await vitest.close();
process.exit(0);
