/**
 * The extension's figures: what activation costs, how large it is, how fast its views are drawn.
 *
 *     scripts/vscode.py --bench [--vsix FILE]
 *
 * Activation is loading the code and the call of `activate`, measured inside the extension host in processor time, so
 * that a busy machine does not count; the median of several windows. Elapsed time, and what VS Code itself shows in "Show
 * Running Extensions", stand beside it.
 */
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { ARTIFACTS, BUILT, until } from "./rig/base.ts";
import { Code, extensionFolder, prepareExtension, startBrowser } from "./rig/code.ts";
import { runInHost } from "./rig/inhost.ts";
import { Workbench } from "./rig/workbench.ts";
import { World } from "./rig/world.ts";

const WINDOWS = 5;
const LIMIT = 50;

const { values: options } = parseArgs({ options: { vsix: { type: "string" } } });
process.once("exit", () => fs.rmSync(BUILT, { recursive: true, force: true }));
const vsix = prepareExtension(options.vsix);
for (const name of ["extension.js", "languageclient.js"]) {
  const bundle = fs.readFileSync(path.join(extensionFolder(), "dist", name));
  console.log(`bundle      ${name}: ${kib(bundle.length)}, ${kib(gzipSync(bundle).length)} compressed`);
}
console.log(`VSIX        ${kib(fs.statSync(vsix).size)}`);

const { browser, stop } = await startBrowser();
const world = new World({ delegators: ["quick", "careful"] });
const code = await Code.start(world);
const bareWorld = new World();
const bare = await Code.start(bareWorld, { bare: true, driver: true });
const processor: number[] = [];
const elapsed: number[] = [];
const activations: number[] = [];
const views: number[] = [];
try {
  for (let number = 0; number < WINDOWS; number++) {
    const context = await browser.newContext();
    const vs = new Workbench(await context.newPage(), bare, path.join(ARTIFACTS, "bench"));
    const { output, failed } = await runInHost(vs, "activation.test.ts");
    const told = /^@activation (\S+) (\S+)$/m.exec(output);
    if (told === null) throw new Error(`No figures: ${output}${JSON.stringify(failed)}`);
    processor.push(Number(told[1]));
    elapsed.push(Number(told[2]));
    await context.close();
  }
  for (let number = 0; number < WINDOWS; number++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const vs = new Workbench(await context.newPage(), code, path.join(ARTIFACTS, "bench"));
    await vs.open();
    const began = performance.now();
    await vs.openContainer();
    await vs.waitForRow("Delegators", "quick");
    views.push(performance.now() - began);
    activations.push(await activation(vs));
    if (number === 0) await vs.shot("running extensions");
    await context.close();
  }
} finally {
  await stop();
  for (const each of [code, bare]) await each.stop();
  for (const each of [world, bareWorld]) await each.remove();
}
const measured = median(processor);
console.log(
  `activation  ${measured.toFixed(0)} ms of processor time in the extension host (${list(processor)}); limit ${LIMIT} ms`,
);
console.log(
  `            ${median(elapsed).toFixed(0)} ms elapsed there (${list(elapsed)}), as VS Code shows it: ${list(activations)}`,
);
console.log(
  `first rows  ${median(views).toFixed(0)} ms from the click on the icon, the start of the sidecar included (${list(views)})`,
);
process.exitCode = measured <= LIMIT ? 0 : 1;

/** Read the time from the editor that VS Code shows. */
async function activation(vs: Workbench): Promise<number> {
  await vs.command("Developer: Show Running Extensions");
  const row = vs.page.locator(".runtime-extensions-editor .monaco-list-row", { hasText: "Understudy" }).first();
  return until(
    async () => Number(/(\d+)\s?ms/.exec(await row.locator(".activation-time").innerText())?.[1] ?? 0),
    "VS Code shows the activation time",
  );
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function list(values: readonly number[]): string {
  return values.map((one) => one.toFixed(0)).join(", ");
}

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`;
}
