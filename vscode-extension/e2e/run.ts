/**
 * Run the tests of the extension in a real VS Code.
 *
 *     UNDERSTUDY_VSCODE_HOST=<folder> node run.ts [--vsix FILE] [--in FILE] [--only TEXT] [--part K/N] [--list]
 *
 * `scripts/vscode.py` calls it with the right Node and host. --in loads one file of tests/ (`review`), --only runs
 * the tests whose full title contains a text. --part takes the K-th of N groups of files of about the same length. The
 * exit code is 0 if all tests passed.
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
    part: { type: "string", default: "1/1" },
    list: { type: "boolean", default: false },
  },
});
fs.mkdirSync(ARTIFACTS, { recursive: true });

const mocha = new Mocha({ ui: "bdd", timeout: 120_000, slow: 60_000, color: process.stdout.isTTY, reporter: "spec" });
if (options.only !== undefined) mocha.fgrep(options.only);
for (const file of filesOf(options.in ?? "", options.part)) mocha.addFile(file);
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
  let passed = 0;
  let failed = 0;
  try {
    await new Promise<void>((resolve) => {
      mocha
        .run(() => resolve())
        .on("pass", () => (passed += 1))
        .on("fail", (test, error: unknown) => {
          failed += 1;
          note(test.fullTitle(), error);
        });
    });
  } finally {
    await stop();
  }
  if (failed > 0) console.log(`Pictures and logs: ${ARTIFACTS}`);
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
}

/** Append a failed test to the file that CI prints at its very end. */
function note(title: string, error: unknown): void {
  const file = process.env["UNDERSTUDY_FAILURES"];
  if (!file) return;
  const reason = error instanceof Error ? error.message : String(error);
  const [why, shown] = reason.split("\nShown: ").map((text) => text.replace(/\s+/g, " "));
  const lines = [`VS Code: ${title}: ${why?.slice(0, 300)}`, ...(shown ? [`  Shown: ${shown.slice(0, 700)}`] : [])];
  fs.appendFileSync(file, `${lines.join("\n")}\n`);
}

/**
 * The files of a part: the longest files are distributed first, each to the part with the shortest ones so far. With
 * --only, a file is as long as it has tests whose own title contains the text.
 */
function filesOf(begin: string, part: string): string[] {
  const [which, count] = part.split("/").map(Number) as [number, number];
  const names = fs.readdirSync(path.join(E2E, "tests")).filter((name) => name.endsWith(".test.ts"));
  const files = names
    .filter((name) => name.startsWith(begin))
    .map((name) => path.join(E2E, "tests", name))
    .map((file) => ({ file, size: lengthOf(fs.readFileSync(file, "utf8")) }))
    .sort((one, other) => other.size - one.size || one.file.localeCompare(other.file));
  const parts = Array.from({ length: count }, () => ({ size: 0, files: [] as string[] }));
  for (const { file, size } of files) {
    const shortest = parts.reduce((least, one) => (one.size < least.size ? one : least));
    shortest.size += size;
    shortest.files.push(file);
  }
  return (parts[which - 1]?.files ?? []).sort();
}

function lengthOf(source: string): number {
  return options.only === undefined ? source.length : source.split(options.only).length - 1;
}
