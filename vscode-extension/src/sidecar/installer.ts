/**
 * Installs the sidecar that the extension carries into the extension's own storage: a venv of its own, from the wheels
 * of the VSIX, by their hashes, without a network. Never called unasked.
 */

import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { t } from "../base/l10n.ts";

/** Pythons that the wheels are for, best first. */
export const PYTHONS = ["python3.13", "python3.12", "python3.11", "python3", "python"] as const;
const STEP_TIMEOUT_MS = 300_000;

export interface InstallParts {
  /** `<extension>/wheels`: the wheels and `requirements.txt` with their hashes. */
  readonly wheelsPath: string;
  readonly storagePath: string;
  readonly version: string;
  /** Machine-scoped setting `understudy.python`; empty: the first that fits. */
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

/** The program installed earlier, if any. */
export async function installed(storagePath: string): Promise<string | undefined> {
  try {
    const pointer = JSON.parse(await fs.readFile(pointerOf(storagePath), "utf8")) as { program?: unknown };
    if (typeof pointer.program !== "string") return undefined;
    // What does not lie where we install was not installed by us.
    const inside = path.relative(path.join(storagePath, "sidecar"), pointer.program);
    return inside.startsWith("..") || path.isAbsolute(inside) ? undefined : pointer.program;
  } catch {
    return undefined;
  }
}

/** Whether this VSIX carries wheels at all (one built for another purpose may not). */
export async function carriesWheels(wheelsPath: string): Promise<boolean> {
  return fs.access(path.join(wheelsPath, "requirements.txt")).then(
    () => true,
    () => false,
  );
}

/** Install and return the program; on any failure nothing that was installed before is lost. */
export async function install(
  parts: InstallParts,
  report: (message: string, percent: number) => void,
  signal: AbortSignal,
): Promise<string> {
  if (!(await carriesWheels(parts.wheelsPath))) {
    throw new InstallError(
      t("This build of the extension carries no wheels for this platform."),
      t("Install Understudy with pipx or uv and reload the window, or set understudy.path."),
    );
  }
  if (parts.python !== "" && !path.isAbsolute(parts.python)) {
    throw new InstallError(
      t("The setting understudy.python is no absolute path: {0}", parts.python),
      t("A relative path would mean another program in every folder."),
    );
  }
  await fs.mkdir(parts.storagePath, { recursive: true });
  report(t("Looking for Python 3.11 or newer …"), 5);
  const python = await findPython(parts, signal);
  const home = path.join(parts.storagePath, "sidecar", `${parts.version}-${Date.now().toString(36)}`);
  const program = path.join(home, parts.platform === "win32" ? "Scripts\\understudy.exe" : "bin/understudy");
  const inner = path.join(home, parts.platform === "win32" ? "Scripts\\python.exe" : "bin/python");
  const before = await installed(parts.storagePath);
  try {
    await fs.mkdir(path.dirname(home), { recursive: true });
    report(t("Making a Python environment …"), 20);
    await run(parts, python, ["-I", "-m", "venv", home], signal);
    report(t("Installing …"), 50);
    await run(
      parts,
      inner,
      // prettier-ignore
      ["-I", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "install", "--no-index", "--no-deps", "--only-binary=:all:",
        "--require-hashes", "-f", parts.wheelsPath, "-r", path.join(parts.wheelsPath, "requirements.txt")],
      signal,
    );
    report(t("Trying it …"), 90);
    await run(parts, program, ["--version"], signal);
    await fs.writeFile(`${pointerOf(parts.storagePath)}.new`, JSON.stringify({ program, version: parts.version }));
    await fs.rename(`${pointerOf(parts.storagePath)}.new`, pointerOf(parts.storagePath));
  } catch (error) {
    await fs.rm(home, { recursive: true, force: true });
    throw error;
  }
  await sweep(path.dirname(home), before === undefined ? [program] : [program, before]);
  return program;
}

async function findPython(parts: InstallParts, signal: AbortSignal): Promise<string> {
  const seen: string[] = [];
  for (const candidate of parts.python ? [parts.python] : PYTHONS) {
    try {
      const said = await run(
        parts,
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
    t("There is no usable Python 3.11 or newer.") + (seen.length ? ` ${seen.join("; ")}` : ""),
    t("Install one (on Debian and Ubuntu with python3-venv), or name one in the setting understudy.python."),
  );
}

function run(parts: InstallParts, command: string, args: string[], signal: AbortSignal): Promise<string> {
  parts.log(`${command} ${args.join(" ")}`);
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      {
        cwd: parts.storagePath, // not wherever the editor was started
        env: bare(parts.env),
        timeout: STEP_TIMEOUT_MS,
        maxBuffer: 4_000_000,
        windowsHide: true,
        signal,
      },
      (error, stdout, stderr) => {
        if (stderr.trim()) parts.log(stderr.trim());
        if (!error) resolve(stdout);
        else if (signal.aborted) reject(new InstallError(t("The installation was cancelled."), ""));
        else if ((error as NodeJS.ErrnoException).code === "ENOENT") reject(new Error(`${command}: ENOENT`));
        else
          reject(
            new InstallError(
              t("The installation failed: {0}", lastLine(stderr || error.message)),
              t("The output channel has the whole story."),
            ),
          );
      },
    );
  });
}

/** pip must not read another index or configuration than ours, install elsewhere, or run with another Python. */
function bare(env: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => !/^PIP_/i.test(name));
  return { ...Object.fromEntries(kept), PIP_CONFIG_FILE: "/dev/null", PIP_NO_INDEX: "1" };
}

/** Earlier installations, and what one that was broken off has left; what ran until now stays: other windows run it. */
async function sweep(folder: string, keep: readonly string[]): Promise<void> {
  for (const name of await fs.readdir(folder).catch(() => [])) {
    const home = path.join(folder, name);
    if (!keep.some((program) => program.startsWith(home + path.sep))) {
      await fs.rm(home, { recursive: true, force: true });
    }
  }
}

function pointerOf(storagePath: string): string {
  return path.join(storagePath, "sidecar.json");
}

function lastLine(value: unknown): string {
  const text = value instanceof Error ? value.message : String(value);
  return text.trim().split("\n").at(-1) ?? "";
}
