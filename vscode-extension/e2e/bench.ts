/**
 * The extension's figures: what activation costs, how large it is, how fast its views are drawn.
 *
 *     scripts/vscode.py --bench [--vsix FILE]
 *
 * Activation is what VS Code itself measures and shows in "Show Running Extensions": loading the code and the call of
 * `activate`, in extension-host time. The median of several windows counts; the first window of a server also compiles.
 */
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { ARTIFACTS, BUILT, until } from "./rig/base.ts";
import { Code, extensionFolder, prepareExtension, startBrowser } from "./rig/code.ts";
import { Workbench } from "./rig/workbench.ts";
import { World } from "./rig/world.ts";

const WINDOWS = 5;
const ACTIVATION_MILLISECONDS = 50;

const { values: options } = parseArgs({ options: { vsix: { type: "string" } } });
process.once("exit", () => fs.rmSync(BUILT, { recursive: true, force: true }));
const vsix = prepareExtension(options.vsix);
const bundle = fs.readFileSync(path.join(extensionFolder(), "dist/extension.js"));
console.log(`bundle      ${kib(bundle.length)}, ${kib(gzipSync(bundle).length)} compressed`);
console.log(`VSIX        ${kib(fs.statSync(vsix).size)}`);

const { browser, stop } = await startBrowser();
const world = new World({ delegators: ["quick", "careful"] });
const code = await Code.start(world);
const activations: number[] = [];
const views: number[] = [];
try {
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
  await code.stop();
  await world.remove();
}
const measured = median(activations);
console.log(
  `activation  ${measured.toFixed(0)} ms (${activations.map((one) => one.toFixed(0)).join(", ")}); limit ${ACTIVATION_MILLISECONDS} ms`,
);
console.log(`first rows  ${median(views).toFixed(0)} ms from the click on the icon, the start of the sidecar included`);
process.exitCode = measured <= ACTIVATION_MILLISECONDS ? 0 : 1;

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

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`;
}
