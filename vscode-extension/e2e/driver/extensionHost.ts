/**
 * Run tests inside the extension host, with the `vscode` module: mocha runs as an extension test.
 *
 * A browser page starts the extension host. With `enable-smoke-test-driver` (without it, silently nothing happens) it
 * takes the extension under development and the tests from its URL, as `@vscode/test-web` does. Output of the
 * extension host is returned through two functions of the page.
 */
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { format } from "node:util";
import { BUILT, E2E, EXTENSION } from "./environment.ts";
import { extensionFolder } from "./vscodeServer.ts";
import type { Workbench } from "./workbench.ts";

export interface InHost {
  readonly passed: readonly string[];
  readonly failed: readonly { readonly title: string; readonly error: string }[];
  readonly output: string;
}

/** Bundle one test file of `extension-host/`; `vscode` and mocha are resolved at run time. */
async function bundle(file: string): Promise<string> {
  const { build } = (await import(pathToFileURL(path.join(EXTENSION, "node_modules/esbuild/lib/main.js")).href)) as {
    build: (options: object) => Promise<unknown>;
  };
  const outfile = path.join(BUILT, `${path.basename(file, ".ts")}.cjs`);
  fs.mkdirSync(BUILT, { recursive: true });
  await build({
    stdin: { contents: suite(file), resolveDir: E2E, loader: "ts" },
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node22",
    external: ["vscode", "mocha"],
    sourcemap: "inline",
    logLevel: "warning",
  });
  return outfile;
}

/** Run a test file of `extension-host/`. The editor must be `bare`, with `driver` (see `inCode`), and `closed`. */
export async function runInHost(vs: Workbench, file: string, seconds = 400): Promise<InHost> {
  const tests = await bundle(path.join(E2E, "extension-host", file));
  const passed: string[] = [];
  const failed: { title: string; error: string }[] = [];
  let output = "";
  let timer: NodeJS.Timeout | undefined;
  const ended = new Promise<void>((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`No end of the tests within ${seconds} s:\n${output}`)), seconds * 1000);
    void vs.page.exposeFunction("codeAutomationExit", () => resolve());
    void vs.page.exposeFunction("codeAutomationLog", (_type: string, args: unknown[]) => {
      for (const line of format(...args).split("\n")) {
        const told = /^@test (\w+) (.*)$/.exec(line);
        if (told === null) output += `${line}\n`;
        else if (told[1] === "pass") passed.push(JSON.parse(told[2] ?? ""));
        else if (told[1] === "fail") failed.push(JSON.parse(told[2] ?? ""));
        else resolve(); // VS Code itself reports it some 6 s later
      }
    });
  });
  const payload = [
    ["extensionDevelopmentPath", vs.code.remote(extensionFolder())],
    ["extensionTestsPath", vs.code.remote(tests)],
  ] as const;
  try {
    await vs.page.goto(vs.code.address(vs.world.repository, payload));
    await ended;
  } finally {
    clearTimeout(timer);
  }
  if (passed.length + failed.length === 0) throw new Error(`No test of ${file} ran:\n${output}`);
  return { passed, failed, output };
}

/** What the extension host loads: `run` is VS Code's contract. */
const suite = (file: string): string => `
import Mocha from "mocha";
const told = (kind: string, what: unknown): void => console.log("@test " + kind + " " + JSON.stringify(what));
export async function run(): Promise<void> {
  const mocha = new Mocha({ ui: "bdd", timeout: 60_000, reporter: class {
    constructor(runner: Mocha.Runner) {
      runner.on("pass", (test) => told("pass", test.fullTitle()));
      runner.on("fail", (test, error) => told("fail", { title: test.fullTitle(), error: error.stack ?? String(error) }));
    }
  } as never });
  mocha.suite.emit("pre-require", globalThis, "", mocha);
  require(${JSON.stringify(file)});
  const failures = await new Promise<number>((resolve) => { mocha.run(resolve); });
  told("end", failures);
  if (failures > 0) throw new Error(failures + " failed");
}
`;
