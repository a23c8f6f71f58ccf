// Keep vitest running and run its tests again after a file changed: `node kept_vitest.mjs`. The first line of standard
// input is a JSON object with the arguments of `vitest` and the report to write. Each line after it has a changed file, a
// word, which is printed on a line of its own when the report is written, perhaps the test files to run, and whether to
// stop at the first failure.
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
// Its own order depends on what earlier runs showed, and on which of several files fails first.
class ByName {
  shard(files) {
    return files;
  }
  sort(files) {
    return [...files].sort((one, other) => (one.moduleId < other.moduleId ? -1 : 1));
  }
}
const vitest = await createVitest("test", {
  ...options,
  fileParallelism: false,
  sequence: { ...options.sequence, sequencer: ByName },
  watch: false,
  run: true,
  reporters: ["json"],
  outputFile: { json: job.report },
}, { server: { watch: null } });
// Version 3 calls it init.
await (vitest.standalone ?? vitest.init)?.call(vitest);
const specifications = await vitest.globTestSpecifications(filter);

let changed = [];
for (let request = await next(); request; request = await next()) {
  // What was changed for the last run is as it was before.
  for (const file of new Set([...changed, request.changed])) vitest.invalidateFile(file);
  changed = [request.changed];
  vitest.state.errorsSet?.clear();
  for (const one of [vitest, ...vitest.projects]) one.config.bail = request.stop ? 1 : 0;
  const chosen = request.tests ? specifications.filter((one) => request.tests.includes(one.moduleId)) : specifications;
  // Files that do not run after a failure would be reported with what they showed before.
  for (const one of chosen) vitest.state.clearFiles(one.project, [one.moduleId]);
  await vitest.runTestSpecifications(chosen, true);
  process.stdout.write(`\n${request.word}\n`);
}
await vitest.close();
process.exit(0);
