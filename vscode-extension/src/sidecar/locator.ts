/**
 * Find the sidecar: the setting, PATH, the extension's storage.
 *
 * A program inside the workspace is used only if the setting names it, even in a trusted workspace: a pull or an accepted
 * change can replace it, and it is the sidecar that notices such changes and asks for trust again.
 */

import * as fs from "node:fs/promises";
import * as path from "node:path";
import { realPath } from "../base/paths.ts";

export type Origin = "setting" | "path" | "storage";

export interface FoundProgram {
  readonly command: string;
  readonly origin: Origin;
}

export interface LocateOptions {
  /** Machine-scoped setting `understudy.path`; empty: not set. */
  readonly setting: string;
  readonly homePath: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  /** Paths of the workspace folders. */
  readonly folders: readonly string[];
  /** The program in the extension's storage; undefined: none. */
  readonly installed: string | undefined;
}

export interface LocateResult {
  readonly found?: FoundProgram;
  /** All searched places in order, to show to the user. */
  readonly searched: readonly string[];
}

export async function locate(options: LocateOptions): Promise<LocateResult> {
  const searched: string[] = [];
  const windows = options.platform === "win32";
  const program = windows ? "understudy.exe" : "understudy";
  const attempt = async (command: string, origin: Origin): Promise<FoundProgram | undefined> => {
    searched.push(command);
    return (await isExecutable(command)) ? { command, origin } : undefined;
  };

  if (options.setting.trim() !== "") {
    // If the setting names a program that cannot run, do not fall back to another one.
    const command = options.setting.trim().replace(/^~(?=[/\\]|$)/, options.homePath);
    if (!path.isAbsolute(command)) return { searched: [`understudy.path = ${command} (must be an absolute path)`] };
    const found = await attempt(command, "setting");
    return found ? { found, searched: searched } : { searched: searched };
  }
  for (const folder of searchPath(options.variables["PATH"] ?? "", options.folders, options.platform)) {
    if (isBelow(path.join(folder, program), options.folders)) continue; // a link
    const found = await attempt(path.join(folder, program), "path");
    if (found) return { found, searched: [...searched] };
  }
  const onPath = searched.length;
  searched.splice(0, onPath, `PATH (${onPath} folders)`);
  for (const folder of options.folders) {
    for (const venv of [".venv", "venv"]) {
      const command = path.join(folder, venv, windows ? "Scripts" : "bin", program);
      if (await isExecutable(command)) searched.push(`${command} (in the workspace: used only as understudy.path)`);
    }
  }
  if (options.installed !== undefined) {
    const found = await attempt(options.installed, "storage");
    if (found) return { found, searched: searched };
  }
  return { searched: searched };
}

/**
 * Folders of `PATH` to search for programs. Relative entries are left out: they would run files of the workspace.
 * Entries in the folders `without` are left out, too: the environment of a workspace may be active in the shell that
 * started the editor.
 */
export function searchPath(value: string, without: readonly string[], platform: NodeJS.Platform): string[] {
  const entries = value.split(platform === "win32" ? ";" : ":").filter((folder) => path.isAbsolute(folder));
  return entries.filter((folder) => !isBelow(folder, without));
}

/** Whether a path, or what it links to, is in one of the folders. */
function isBelow(place: string, folders: readonly string[]): boolean {
  if (folders.length === 0) return false; // avoid disk access
  const files = [path.resolve(place), realPath(place)];
  const tops = folders.flatMap((folder) => [path.resolve(folder), realPath(folder)]);
  return files.some((file) => tops.some((top) => file === top || file.startsWith(top + path.sep)));
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await fs.access(file, fs.constants.X_OK);
    return (await fs.stat(file)).isFile();
  } catch {
    return false;
  }
}
