/** Spawn the sidecar without a shell, and keep its last output. */

import { spawn, type ChildProcess } from "node:child_process";
import { searchPath } from "./locator.ts";
import type { ProcessExit, LaunchCommand } from "./connection.ts";

/** Lines of standard error that are kept to explain a crash. */
const MAX_STDERR_LINES = 40;
const MAX_LINE_LENGTH = 2_000;

export interface Child {
  readonly process: ChildProcess;
  /** Resolves when the process has exited and its standard error was read, at most one second later. */
  readonly ended: Promise<ProcessExit>;
  /** Kill the process. `fault` is reported as the cause unless it has exited already. */
  kill(fault?: string): void;
  /** Wait for the process to exit, then kill it. Resolves when it has exited. */
  endWithin(milliseconds: number, fault?: string): Promise<void>;
}

export function spawnSidecar(launch: LaunchCommand, log: (line: string) => void): Child {
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
    rest = (parts.pop() ?? "").slice(-MAX_LINE_LENGTH);
    for (const part of parts) {
      const line = part.slice(0, MAX_LINE_LENGTH);
      lines.push(line);
      log(line);
    }
    lines.splice(0, lines.length - MAX_STDERR_LINES);
  });
  child.stdin.on("error", () => {}); // the process has exited; `exit` reports that
  let fault: string | undefined;
  const ended = new Promise<ProcessExit>((resolve) => {
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
    // A grandchild that holds the pipe open would delay `close` forever.
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
 * The environment of the sidecar: the editor's own, without variables that control the editor's processes, and without
 * the tmux pane in which the editor was started. `PATH` has no entries in the folders `without` (see `searchPath`).
 */
export function sidecarEnvironment(
  variables: Readonly<Record<string, string | undefined>>,
  without: readonly string[] = [],
): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (
      value !== undefined &&
      !/^(?:ELECTRON_|VSCODE_|PYTHONHOME$|PYTHONPATH$|PYTHONSTARTUP$|TMUX$|TMUX_PANE$)/.test(name)
    ) {
      result[name] = value;
    }
  }
  const { PATH: folders } = result;
  if (folders !== undefined) {
    const windows = process.platform === "win32";
    // An empty PATH would mean the current folder.
    result["PATH"] = searchPath(folders, without, process.platform).join(windows ? ";" : ":") || "/usr/bin:/bin";
  }
  // Modules in the current folder must not shadow those of the sidecar.
  return { ...result, PYTHONSAFEPATH: "1" };
}
