/**
 * A test in a real VS Code:
 *
 *     describe("the sidebar", () => {
 *       it("lists delegators", inCode({ delegators: ["quick"] }, async (vs) => {
 *         await vs.openContainer();
 *         await vs.waitForRow("Delegators", "quick");
 *         await vs.shot("delegators");
 *       }));
 *     });
 *
 * Each test has its own fixture, server and browser context, with the repository open. After the test the window is
 * closed, the sidecar must exit by itself, and every other process is ended. If a test fails, a last picture, the
 * logs and the browser's output are kept in `artifacts/<test>/`.
 */
import fs from "node:fs";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { ARTIFACTS, fileName, textOf, until } from "./environment.ts";
import { Code, type CodeOptions } from "./vscodeServer.ts";
import { Workbench } from "./workbench.ts";
import { World, type WorldOptions } from "./fixture.ts";

/** Seconds; a workbench needs 4 to 10 of them to start on two cores, and 30 if other programs use these, too. */
const LONGEST = Number(process.env["UNDERSTUDY_TEST_SECONDS"] ?? 480);

export interface TestOptions extends WorldOptions, CodeOptions {
  /** A file of the repository that is open at the start. */
  readonly file?: string;
  /** The test opens the window itself. */
  readonly closed?: boolean;
  readonly viewport?: { readonly width: number; readonly height: number };
}

let shared: Browser | undefined;
const running = new Set<() => Promise<void>>();

export function useBrowser(browser: Browser): void {
  shared = browser;
}

/** End everything that running tests have started. */
export async function endEverything(): Promise<void> {
  await Promise.allSettled([...running].map((end) => end()));
}

/** Return the body of a mocha test that needs a page of its own in Chromium, and no VS Code. */
export function inChromium(body: (page: Page) => Promise<void>): (this: Mocha.Context) => Promise<void> {
  return async function (this: Mocha.Context): Promise<void> {
    this.timeout(LONGEST * 1000);
    if (shared === undefined) throw new Error("There is no browser: run the tests through run.ts.");
    const context = await shared.newContext({ viewport: { width: 900, height: 700 } });
    try {
      await body(await context.newPage());
    } finally {
      await context.close();
    }
  };
}

/** Return the body of a mocha test that runs in its own VS Code. */
export function inCode(
  options: TestOptions,
  body: (vs: Workbench) => Promise<void>,
): (this: Mocha.Context) => Promise<void> {
  return async function (this: Mocha.Context): Promise<void> {
    this.timeout(LONGEST * 1000);
    if (shared === undefined) throw new Error("There is no browser: run the tests through run.ts.");
    const artifacts = path.join(ARTIFACTS, fileName(this.test?.fullTitle() ?? "test"));
    fs.rmSync(artifacts, { recursive: true, force: true });
    const world = new World(options);
    const told: string[] = [];
    let code: Code | undefined;
    let vs: Workbench | undefined;
    const context = await shared.newContext({
      viewport: options.viewport ?? { width: 1280, height: 800 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const end = async (): Promise<void> => {
      await code?.stop();
      await world.remove();
    };
    running.add(end);
    try {
      code = await Code.start(world, options);
      const page = await context.newPage();
      page.setDefaultTimeout(120_000);
      page.on("console", (message) => told.push(`${message.type()}: ${message.text()}`));
      page.on("pageerror", (error) => told.push(`pageerror: ${error.stack ?? error.message}`));
      vs = new Workbench(page, code, artifacts);
      if (!options.closed) await vs.open(options.file);
      await inTime(body(vs), LONGEST - 20);
      await page.close();
      await until(() => world.sidecars().length === 0, "the sidecar ends with its window");
    } catch (error) {
      await keep(artifacts, world, code, vs, told, error);
      const seen = vs && (await inTime(vs.shown(), 5).catch(() => ""));
      if (seen && error instanceof Error) error.message += `\nShown: ${seen}; delegations: ${lastEvents(world)}`;
      throw error;
    } finally {
      await context.close();
      await end();
      running.delete(end);
    }
  };
}

/** A test that hangs must save its evidence before mocha times out. */
async function inTime<T>(work: Promise<T>, seconds: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`The test was not done within ${seconds} s.`)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function keep(
  folder: string,
  world: World,
  code: Code | undefined,
  vs: Workbench | undefined,
  told: readonly string[],
  error: unknown,
): Promise<void> {
  fs.mkdirSync(folder, { recursive: true });
  const write = (name: string, text: string): void => fs.writeFileSync(path.join(folder, name), text);
  write("error.txt", error instanceof Error ? `${error.stack}\n${error.cause ?? ""}` : String(error));
  write("browser.txt", told.join("\n"));
  write(
    "processes.txt",
    world
      .processes()
      .map(({ pid, argv }) => `${pid} ${argv.join(" ")}`)
      .join("\n"),
  );
  await vs?.shot("failure").catch(() => undefined);
  // Messages disappear after some seconds, but their list stays.
  await vs?.page
    .locator("#status\\.notifications a")
    .click({ timeout: 5_000, force: true })
    .catch(() => undefined);
  await vs?.shot("failure with messages").catch(() => undefined);
  for (const [name, text] of Object.entries(code?.logs() ?? {})) {
    if (text.trim()) write(`${fileName(name.replace(/^\d+T\d+\//, ""))}.log`, text);
  }
  // The full report of an internal error of Understudy; its message shows only a summary.
  const errors = textOf(path.join(world.state, "internal-errors.log"));
  if (errors) write("internal-errors.log", errors);
  for (const folder of delegationFolders(world)) {
    for (const name of ["events.jsonl", "worker.log", "stderr.log"]) {
      const text = textOf(path.join(folder, name));
      if (text) write(`delegation-${path.basename(folder)}-${name}`, text);
    }
  }
}

function delegationFolders({ state }: World): string[] {
  const all = path.join(state, "delegations");
  return fs.existsSync(all) ? fs.readdirSync(all).map((id) => path.join(all, id)) : [];
}

/** How far each delegation has come: where only the output of the tests is kept, it must say that. */
function lastEvents(world: World): string {
  const last = (folder: string): string => textOf(path.join(folder, "events.jsonl")).trim().split("\n").at(-1) ?? "";
  const types = delegationFolders(world).map((folder) => /"type":"(\w+)"/.exec(last(folder))?.[1] ?? "no event");
  return types.join(", ") || "none";
}
