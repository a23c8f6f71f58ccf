/** Which sidecar is started: the setting, PATH, the trusted workspace's venv, the extension's own storage. */

import { realpathSync } from "node:fs";
import * as fs from "node:fs/promises";
import * as path from "node:path";

export type Origin = "setting" | "path" | "workspace" | "storage";

export interface Found {
  readonly command: string;
  readonly origin: Origin;
}

export interface Look {
  /** Machine-scoped setting `understudy.path`; empty: not set. */
  readonly setting: string;
  readonly homePath: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly trusted: boolean;
  /** Paths of the workspace's folders. */
  readonly folders: readonly string[];
  /** The program that was installed into the extension's storage; undefined: none. */
  readonly installed: string | undefined;
}

export interface Located {
  readonly found?: Found;
  /** Every place that was looked at, in order, for the person to read. */
  readonly looked: readonly string[];
}

export async function locate(look: Look): Promise<Located> {
  const looked: string[] = [];
  const windows = look.platform === "win32";
  const program = windows ? "understudy.exe" : "understudy";
  const attempt = async (command: string, origin: Origin): Promise<Found | undefined> => {
    looked.push(command);
    return (await runnable(command)) ? { command, origin } : undefined;
  };

  if (look.setting.trim() !== "") {
    // A setting is a decision: when it names nothing that runs, nothing else is taken in its place.
    const command = look.setting.trim().replace(/^~(?=[/\\]|$)/, look.homePath);
    if (!path.isAbsolute(command)) return { looked: [`understudy.path = ${command} (must be an absolute path)`] };
    const found = await attempt(command, "setting");
    return found ? { found, looked } : { looked };
  }
  const shut = look.trusted ? [] : look.folders;
  for (const folder of searchPath(look.variables["PATH"] ?? "", shut, look.platform)) {
    if (isBelow(path.join(folder, program), shut)) continue; // a link
    const found = await attempt(path.join(folder, program), "path");
    if (found) return { found, looked: [...looked] };
  }
  const onPath = looked.length;
  looked.splice(0, onPath, `PATH (${onPath} folders)`);
  if (look.trusted) {
    for (const folder of look.folders) {
      for (const venv of [".venv", "venv"]) {
        const found = await attempt(path.join(folder, venv, windows ? "Scripts" : "bin", program), "workspace");
        if (found) return { found, looked };
      }
    }
  }
  if (look.installed !== undefined) {
    const found = await attempt(look.installed, "storage");
    if (found) return { found, looked };
  }
  return { looked };
}

/**
 * The folders of a `PATH` in which programs may be looked for. Not the relative ones, which would make a file of the
 * workspace a program of the person's, and none in a folder that is `shut`: a workspace that is not trusted, opened from
 * a shell in which its environment was active.
 */
export function searchPath(value: string, shut: readonly string[], platform: NodeJS.Platform): string[] {
  const entries = value.split(platform === "win32" ? ";" : ":").filter((folder) => path.isAbsolute(folder));
  return entries.filter((folder) => !isBelow(folder, shut));
}

function isBelow(place: string, folders: readonly string[]): boolean {
  if (folders.length === 0) return false; // no disk is asked for nothing
  const file = real(place);
  return folders.some((folder) => file === real(folder) || file.startsWith(real(folder) + path.sep));
}

/** Without links; as it is where there is no such thing. */
function real(place: string): string {
  try {
    return realpathSync(place);
  } catch {
    return path.resolve(place);
  }
}

async function runnable(file: string): Promise<boolean> {
  try {
    await fs.access(file, fs.constants.X_OK);
    return (await fs.stat(file)).isFile();
  } catch {
    return false;
  }
}
