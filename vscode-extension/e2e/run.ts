/**
 * Run the tests of the extension in a real VS Code.
 *
 *     UNDERSTUDY_VSCODE_HOST=<folder> node run.ts [--vsix FILE] [--in FILE] [--only TEXT] [--again] [--list]
 *
 * `scripts/vscode.py` calls it with the right Node and host. --in loads one file of tests/ (`review`), --only runs
 * the tests whose full title contains a text, --again runs those that failed the last time. Results are written to
 * artifacts/results.json. The exit code is 0 if all tests passed.
 */
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import Mocha from "mocha";
import { ARTIFACTS, BUILT, E2E } from "./driver/environment.ts";
import { prepareExtension, startBrowser } from "./driver/vscodeServer.ts";
import { endEverything, useBrowser } from "./driver/test.ts";

const { values: options } = parseArgs({
  options: {
    vsix: { type: "string" },
    in: { type: "string" },
    only: { type: "string" },
    again: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
  },
});
const results = path.join(ARTIFACTS, "results.json");
fs.mkdirSync(ARTIFACTS, { recursive: true });

const mocha = new Mocha({ ui: "bdd", timeout: 120_000, slow: 60_000, color: process.stdout.isTTY, reporter: "spec" });
if (options.only !== undefined) mocha.fgrep(options.only);
if (options.again) mocha.grep(new RegExp(`^(?:${failedBefore().map(escaped).join("|")})$`));
for (const name of fs.readdirSync(path.join(E2E, "tests")).sort()) {
  if (name.endsWith(".test.ts") && name.startsWith(options.in ?? "")) mocha.addFile(path.join(E2E, "tests", name));
}
await mocha.loadFilesAsync();

if (options.list) {
  mocha.suite.eachTest((test) => console.log(test.fullTitle()));
} else {
  const began = Date.now();
  process.once("exit", () => fs.rmSync(BUILT, { recursive: true, force: true }));
  prepareExtension(options.vsix);
  console.log(`The extension was packaged and installed in ${((Date.now() - began) / 1000).toFixed(1)} s.`);
  const { browser, stop } = await startBrowser();
  useBrowser(browser);
  // When interrupted (Ctrl+C, or a timeout), end the process groups that tests have started.
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => void endEverything().finally(() => process.exit(130)));
  }
  const passed: string[] = [];
  const failed: string[] = [];
  try {
    await new Promise<void>((resolve) => {
      mocha
        .run(() => resolve())
        .on("pass", (test) => passed.push(test.fullTitle()))
        .on("fail", (test) => failed.push(test.fullTitle()));
    });
  } finally {
    await stop();
  }
  fs.writeFileSync(results, JSON.stringify({ passed, failed }, null, 2));
  if (failed.length > 0) console.log(`Pictures and logs: ${ARTIFACTS}`);
  process.exitCode = failed.length > 0 || passed.length === 0 ? 1 : 0;
}

function failedBefore(): string[] {
  const { failed } = JSON.parse(fs.readFileSync(results, "utf8")) as { failed: string[] };
  if (failed.length === 0) throw new Error("Nothing failed the last time.");
  return failed;
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
