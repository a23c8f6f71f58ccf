/**
 * Install the bundled sidecar into an environment in the extension's storage: the wheels of the VSIX, verified by hash,
 * are unpacked, without pip and without network access. An installation that was killed is never used: the record that
 * names the program is written last, and the next installation removes what is left.
 */

import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { t } from "../base/l10n.ts";

/** Supported Pythons, best first. */
export const PYTHONS = ["python3.13", "python3.12", "python3.11", "python3", "python"] as const;
const STEP_TIMEOUT_MS = 300_000;
/** `scripts/unpack_wheels.py`. */
const UNPACK = "unpack_wheels.py";

export interface InstallOptions {
  /** `<extension>/wheels`: the wheels, a list for each Python, and the script that unpacks them. */
  readonly wheelsPath: string;
  readonly storagePath: string;
  readonly version: string;
  /** Machine-scoped setting `understudy.python`; empty: use the first suitable Python. */
  readonly python: string;
  readonly env: Readonly<Record<string, string>>;
  readonly log: (line: string) => void;
}

export class InstallError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** The previously installed program, if any. */
export async function installedProgram(storagePath: string): Promise<string | undefined> {
  try {
    const pointer = JSON.parse(await fs.readFile(pointerFile(storagePath), "utf8")) as { program?: unknown };
    if (typeof pointer.program !== "string") return undefined;
    // A program outside our folder was not installed by us.
    const inside = path.relative(path.join(storagePath, "sidecar"), pointer.program);
    return inside.startsWith("..") || path.isAbsolute(inside) ? undefined : pointer.program;
  } catch {
    return undefined;
  }
}

/** Whether this VSIX contains wheels. */
export async function hasWheels(wheelsPath: string): Promise<boolean> {
  return fs.access(path.join(wheelsPath, UNPACK)).then(
    () => true,
    () => false,
  );
}

/** Install the sidecar and return its program. A failure keeps the previous installation. */
export async function install(
  options: InstallOptions,
  report: (message: string, percent: number) => void,
  signal: AbortSignal,
): Promise<string> {
  if (!(await hasWheels(options.wheelsPath))) {
    throw new InstallError(
      t("This build of the extension does not include the engine for this platform."),
      t("Install Understudy with pipx or uv and reload the window, or set understudy.path."),
    );
  }
  if (options.python !== "" && !path.isAbsolute(options.python)) {
    throw new InstallError(
      t("The setting understudy.python must be an absolute path, but it is {0}.", options.python),
      t("A relative path would select a different program in every folder."),
    );
  }
  await fs.mkdir(options.storagePath, { recursive: true });
  report(t("Looking for Python…"), 5);
  const python = await findPython(options, signal);
  const home = path.join(options.storagePath, "sidecar", `${options.version}-${Date.now().toString(36)}`);
  const program = path.join(home, "bin/understudy");
  const before = await installedProgram(options.storagePath);
  try {
    await fs.mkdir(path.dirname(home), { recursive: true });
    const [first, last] = [10, 80];
    report(t("Unpacking packages…"), first);
    const unpacked = (line: string): void => {
      const [done = 0, all = 1] = line.split("/").map(Number);
      report(t("Unpacking packages ({0} of {1})…", done, all), first + ((last - first) * done) / all);
    };
    await run(options, python, ["-I", path.join(options.wheelsPath, UNPACK), home], signal, unpacked);
    report(t("Testing the installation…"), 90);
    await run(options, program, ["--version"], signal);
    await fs.writeFile(
      `${pointerFile(options.storagePath)}.new`,
      JSON.stringify({ program, version: options.version }),
    );
    await fs.rename(`${pointerFile(options.storagePath)}.new`, pointerFile(options.storagePath));
  } catch (error) {
    await fs.rm(home, { recursive: true, force: true });
    throw error;
  }
  await removeOldInstallations(path.dirname(home), before === undefined ? [program] : [program, before]);
  return program;
}

async function findPython(options: InstallOptions, signal: AbortSignal): Promise<string> {
  const seen: string[] = [];
  const bundled = new Set(await fs.readdir(options.wheelsPath));
  for (const candidate of options.python ? [options.python] : PYTHONS) {
    try {
      const ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])";
      const said = await run(options, candidate, ["-I", "-c", ask], signal);
      if (bundled.has(`python${said.trim()}.txt`)) return candidate;
      seen.push(`${candidate}: ${said.trim()}`);
    } catch (error) {
      if (signal.aborted) throw error;
      if (!String(error).includes("ENOENT")) seen.push(`${candidate}: ${lastLine(error)}`);
    }
  }
  throw new InstallError(
    t("No suitable Python was found (3.11, 3.12 or 3.13).") + (seen.length ? ` ${seen.join("; ")}` : ""),
    t("Install one, or set understudy.python."),
  );
}

function run(
  options: InstallOptions,
  command: string,
  args: string[],
  signal: AbortSignal,
  onLine: (line: string) => void = () => {},
): Promise<string> {
  options.log(`${command} ${args.join(" ")}`);
  return new Promise((resolve, reject) => {
    const child = execFile(
      command,
      args,
      {
        cwd: options.storagePath, // not the folder the editor was started in
        env: options.env,
        timeout: STEP_TIMEOUT_MS,
        maxBuffer: 4_000_000,
        windowsHide: true,
        signal,
      },
      (error, stdout, stderr) => {
        if (stderr.trim()) options.log(stderr.trim());
        // One that was killed may still write: what it has written is removed after it has ended.
        if (signal.aborted && child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
          child.once("exit", () => reject(new InstallError(t("The installation was cancelled."), "")));
          return;
        }
        if (!error) resolve(stdout);
        else if (signal.aborted) reject(new InstallError(t("The installation was cancelled."), ""));
        else if ((error as NodeJS.ErrnoException).code === "ENOENT") reject(new Error(`${command}: ENOENT`));
        else
          reject(
            new InstallError(
              t("The installation failed: {0}", lastLine(stderr || error.message)),
              t("See the output channel for details."),
            ),
          );
      },
    );
    child.stdout?.on("data", (text: string) => {
      const line = text.trimEnd().split("\n").at(-1);
      if (line) onLine(line);
    });
  });
}

/** Remove older and interrupted installations. Keep the previous one: other windows may be running it. */
async function removeOldInstallations(folder: string, keep: readonly string[]): Promise<void> {
  for (const name of await fs.readdir(folder).catch(() => [])) {
    const home = path.join(folder, name);
    if (!keep.some((program) => program.startsWith(home + path.sep))) {
      await fs.rm(home, { recursive: true, force: true });
    }
  }
}

function pointerFile(storagePath: string): string {
  return path.join(storagePath, "sidecar.json");
}

function lastLine(value: unknown): string {
  const text = value instanceof Error ? value.message : String(value);
  return text.trim().split("\n").at(-1) ?? "";
}
