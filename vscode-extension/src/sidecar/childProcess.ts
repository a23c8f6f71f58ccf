/** The sidecar's process: started without a shell, its last words kept. */

import { spawn, type ChildProcess } from "node:child_process";
import { searchPath } from "./locate.ts";
import type { Ending, Launch } from "./wire.ts";

/** Lines of standard error that are kept for the cause of a crash. */
const KEPT = 40;
const LONGEST = 2_000;

export interface Child {
  readonly process: ChildProcess;
  /** Resolves when the process is gone and its standard error has been read, at most a second later. */
  readonly ended: Promise<Ending>;
  /** End it at once. `fault`: why, unless it has ended by itself. */
  kill(fault?: string): void;
  /** Give it so long to end by itself, then end it; resolves when it is gone. */
  endWithin(milliseconds: number, fault?: string): Promise<void>;
}

export function start(launch: Launch, log: (line: string) => void): Child {
  const child = spawn(launch.command, [...launch.args], {
    cwd: launch.cwd,
    env: launch.env,
    stdio: ["pipe", "pipe", "pipe"],
    shell: false,
    windowsHide: true,
  });
  const lines: string[] = [];
  let rest = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = (parts.pop() ?? "").slice(-LONGEST);
    for (const part of parts) {
      const line = part.slice(0, LONGEST);
      lines.push(line);
      log(line);
    }
    lines.splice(0, lines.length - KEPT);
  });
  child.stdin.on("error", () => {}); // it is gone: `exit` says so
  let fault: string | undefined;
  const ended = new Promise<Ending>((resolve) => {
    const end = (code: number | null, signal: string | null): void => {
      if (rest.trim()) lines.push(rest);
      rest = "";
      resolve({ code, signal, lines: [...lines], ...(fault === undefined ? {} : { fault }) });
    };
    child.once("error", (error) => {
      fault = error.message;
      end(null, null);
    });
    child.once("close", end);
    // A grandchild that holds the pipe would keep `close` away for ever.
    child.once("exit", (code, signal) => setTimeout(end, 1_000, code, signal).unref());
  });
  const kill = (why?: string): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    fault ??= why;
    child.kill("SIGKILL");
  };
  return {
    process: child,
    ended,
    kill,
    async endWithin(milliseconds, why) {
      const late = setTimeout(kill, milliseconds, why);
      await ended;
      clearTimeout(late);
    },
  };
}

/**
 * The environment a sidecar gets: the editor's own, without what steers the editor's processes. Programs are not looked
 * for in folders that are `shut` (see `searchPath`).
 */
export function environment(
  variables: Readonly<Record<string, string | undefined>>,
  shut: readonly string[] = [],
): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (value !== undefined && !/^(?:ELECTRON_|VSCODE_|PYTHONHOME$|PYTHONPATH$|PYTHONSTARTUP$)/.test(name)) {
      result[name] = value;
    }
  }
  const { PATH: folders } = result;
  if (folders !== undefined) {
    const windows = process.platform === "win32";
    // An empty one would mean the current folder.
    result["PATH"] = searchPath(folders, shut, process.platform).join(windows ? ";" : ":") || "/usr/bin:/bin";
  }
  // Modules of the folder it is started in must not take the place of its own.
  return { ...result, PYTHONSAFEPATH: "1" };
}
