/**
 * Install the bundled sidecar into a venv in the extension's storage, from the wheels of the VSIX, verified by hash
 * and without network access. Runs only on request of the user.
 */

import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { t } from "../base/l10n.ts";

/** Supported Pythons, best first. */
export const PYTHONS = ["python3.13", "python3.12", "python3.11", "python3", "python"] as const;
const STEP_TIMEOUT_MS = 300_000;

export interface InstallOptions {
  /** `<extension>/wheels`: the wheels, and `requirements.txt` with their hashes. */
  readonly wheelsPath: string;
  readonly storagePath: string;
  readonly version: string;
  /** Machine-scoped setting `understudy.python`; empty: use the first suitable Python. */
  readonly python: string;
  readonly platform: NodeJS.Platform;
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
  return fs.access(path.join(wheelsPath, "requirements.txt")).then(
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
  report(t("Looking for Python 3.11 or newer…"), 5);
  const python = await findPython(options, signal);
  const home = path.join(options.storagePath, "sidecar", `${options.version}-${Date.now().toString(36)}`);
  const program = path.join(home, options.platform === "win32" ? "Scripts\\understudy.exe" : "bin/understudy");
  const inner = path.join(home, options.platform === "win32" ? "Scripts\\python.exe" : "bin/python");
  const before = await installedProgram(options.storagePath);
  try {
    await fs.mkdir(path.dirname(home), { recursive: true });
    report(t("Creating a Python environment…"), 20);
    await run(options, python, ["-I", "-m", "venv", home], signal);
    report(t("Installing packages…"), 50);
    await run(
      options,
      inner,
      // prettier-ignore
      ["-I", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "install", "--no-index", "--no-deps", "--only-binary=:all:",
        "--require-hashes", "-f", options.wheelsPath, "-r", path.join(options.wheelsPath, "requirements.txt")],
      signal,
    );
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
  for (const candidate of options.python ? [options.python] : PYTHONS) {
    try {
      const said = await run(
        options,
        candidate,
        ["-I", "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
        signal,
      );
      const [major = 0, minor = 0] = said.trim().split(".").map(Number);
      if (major === 3 && minor >= 11) return candidate;
      seen.push(`${candidate}: ${said.trim()}`);
    } catch (error) {
      if (signal.aborted) throw error;
      if (!String(error).includes("ENOENT")) seen.push(`${candidate}: ${lastLine(error)}`);
    }
  }
  throw new InstallError(
    t("Python 3.11 or newer was not found.") + (seen.length ? ` ${seen.join("; ")}` : ""),
    t("Install one (on Debian and Ubuntu with python3-venv), or set understudy.python."),
  );
}

function run(options: InstallOptions, command: string, args: string[], signal: AbortSignal): Promise<string> {
  options.log(`${command} ${args.join(" ")}`);
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      {
        cwd: options.storagePath, // not the folder the editor was started in
        env: pipEnvironment(options.env),
        timeout: STEP_TIMEOUT_MS,
        maxBuffer: 4_000_000,
        windowsHide: true,
        signal,
      },
      (error, stdout, stderr) => {
        if (stderr.trim()) options.log(stderr.trim());
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
  });
}

/** Keep pip from using another index or configuration, installing elsewhere, or running another Python. */
function pipEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => !/^PIP_/i.test(name));
  return { ...Object.fromEntries(kept), PIP_CONFIG_FILE: "/dev/null", PIP_NO_INDEX: "1" };
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
