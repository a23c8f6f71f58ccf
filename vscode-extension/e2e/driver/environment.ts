/** Paths of the test suite, and waiting for a condition. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

export const E2E = path.join(import.meta.dirname, "..");
export const EXTENSION = path.join(E2E, "..");
export const TOP = path.join(EXTENSION, "..");
/** Screenshots and, after a failure, logs: one folder per test. */
export const ARTIFACTS = process.env["UNDERSTUDY_ARTIFACTS"] ?? path.join(E2E, "artifacts");
/**
 * Build output of one run, so that two runs do not interfere. Inside this folder, so that bundles find their
 * libraries.
 */
export const BUILT = path.join(E2E, "dist", String(process.pid));

/**
 * Wait until a condition is true. A condition that throws is false. Throws with `what` if it does not become true.
 */
export async function until<T>(
  holds: () => T | Promise<T>,
  what: string,
  milliseconds = 120_000,
): Promise<Exclude<T, false | null | undefined>> {
  const deadline = Date.now() + milliseconds;
  let last = "";
  for (;;) {
    try {
      const value = await holds();
      if (value) return value as Exclude<T, false | null | undefined>;
      last = "";
    } catch (error) {
      last = ` (${error instanceof Error ? error.message : String(error)})`;
    }
    if (Date.now() > deadline) throw new Error(`In ${milliseconds / 1000} s it did not come true that ${what}${last}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Return a valid file name. */
export const fileName = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 80);

/** Run a program; return its output, or throw with the end of its output. */
export function run(
  program: string,
  argv: readonly string[],
  options: { cwd?: string; seconds?: number } = {},
): string {
  const done = spawnSync(program, argv, {
    cwd: options.cwd ?? EXTENSION,
    encoding: "utf8",
    timeout: (options.seconds ?? 300) * 1000,
  });
  if (done.status !== 0) {
    const said = `${done.stdout ?? ""}${done.stderr ?? ""}`.trim().slice(-2000);
    throw new Error(`${program} ${argv.join(" ")} failed (${done.error?.message ?? `code ${done.status}`}):\n${said}`);
  }
  return done.stdout;
}

/** Return the text of a file; empty if it does not exist. */
export const textOf = (file: string): string => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "");
