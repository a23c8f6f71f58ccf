/** A running sidecar as the other modules see it: requests, notifications, errors, exit. */

import type { Disposable } from "../base/events.ts";
import type { ErrorInfo, Notifications, Requests } from "../protocol.ts";

/** What the sidecar reports in `initialize`, at `capabilities.experimental.understudy`. */
export interface ServerInfo {
  readonly protocolVersion: number;
  readonly version: string;
  readonly requests: readonly string[];
  readonly notifications: readonly string[];
}

export interface Connection {
  /** Absent: the program is not Understudy, or too old to report it. */
  readonly serverInfo: ServerInfo | undefined;
  /** `params` is required: pass `{}` if there are none. */
  request(method: string, params: object, signal?: AbortSignal): Promise<unknown>;
  onNotification(method: string, listener: (params: never) => void): Disposable;
  /** Shut the process down; never throws. */
  stop(): Promise<void>;
}

/** How a sidecar process exited. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: string | null;
  /** The last lines of its standard error. */
  readonly lines: readonly string[];
  /** Why it could not be started, or what was wrong with its output. */
  readonly fault?: string;
}

export interface LaunchCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Sent with `initialize`. */
  readonly trusted: boolean;
}

/**
 * Start a sidecar and initialize the connection. `ended` is called exactly once if an initialized process exits
 * without `stop`. A failed start rejects with `ProcessExitError`, as does one that `abort` cancels; no process is
 * left behind. Standard error is logged after initialization; a failed start reports it in `ProcessExitError` only.
 */
export type Connect = (
  launch: LaunchCommand,
  ended: (exit: ProcessExit) => void,
  abort: AbortSignal,
) => Promise<Connection>;

export class ProcessExitError extends Error {
  readonly exit: ProcessExit;

  constructor(exit: ProcessExit) {
    super(exitCause(exit));
    this.exit = exit;
  }
}

/** The cause for the user: the last error line, otherwise how the process exited. */
export function exitCause(exit: ProcessExit): string {
  const lines = exit.lines.map((line) => line.trim()).filter((line) => line !== "");
  const said = lines.findLast((line) => /^(?:error|\w*Error):/.test(line)) ?? lines.at(-1);
  return said ? `${said} (${exitText(exit)})` : exitText(exit);
}

/** How the process exited, without its output. */
export function exitText(exit: ProcessExit): string {
  // We kill a process that does not respond: the reason says more than the signal.
  const how = exit.signal ? `ended by ${exit.signal}` : exit.code === null ? "ended" : `exit code ${exit.code}`;
  return exit.fault ?? how;
}

export interface Repair {
  readonly title: string;
  readonly command: string;
  readonly arguments?: readonly unknown[];
  /** The command itself shows what is missing: it runs at once. A message before it would say it twice, and stay. */
  readonly asks?: boolean;
}

/**
 * An error response of the sidecar, or the reason why there is no response. Decide by `kind`; show `message` and
 * `hint`.
 */
export class SidecarError extends Error {
  readonly info: ErrorInfo;
  /** The command that repairs it, offered as a button where the error is shown. If it returns true, try again. */
  readonly repair: Repair | undefined;

  constructor(info: ErrorInfo, repair?: Repair) {
    super(info.message);
    this.name = "SidecarError";
    this.info = info;
    this.repair = repair;
  }

  get kind(): ErrorInfo["kind"] {
    return this.info.kind;
  }

  get hint(): string | undefined {
    return this.info.hint;
  }
}

/** Matches what is for the command line: a command of it, an option, a line of a file. */
const COMMAND_LINE = /\bunderstudy [a-z]|\.toml\b|(?:^|[ (`])-d\b/u;

/** The sentences of a hint that are of use in an editor; none if a button does what it says. */
export function editorHint({ hint = "", remedy }: Pick<ErrorInfo, "hint" | "remedy">): string {
  if (remedy) return "";
  const sentences = hint.split(/(?<=[.!?])\s+(?=[\p{Lu}`])/u);
  return sentences.filter((sentence) => !COMMAND_LINE.test(sentence)).join(" ");
}

/** Convert anything that was thrown into an `ErrorInfo`. */
export function toErrorInfo(error: unknown): ErrorInfo {
  if (error instanceof SidecarError) return error.info;
  const data = (error as { data?: Partial<ErrorInfo> } | undefined)?.data;
  const message = error instanceof Error ? error.message : String(error);
  if (typeof data?.kind === "string" && typeof data.message === "string") return data as ErrorInfo;
  if (typeof data?.kind === "string") return { ...data, kind: data.kind, message };
  return { kind: "internal", message };
}

/**
 * Do something that the user wants. If it fails for a cause whose repair runs at once, run it, and do it again once.
 * Undefined: the user has declined.
 */
export async function repairing<T>(
  work: () => T | Promise<T>,
  run: (command: string, ...values: readonly unknown[]) => Promise<unknown>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SidecarError) || !error.repair?.asks) throw error;
    const { command, arguments: values = [] } = error.repair;
    return (await run(command, ...values)) === true ? work() : undefined;
  }
}

/** Typed requests; the only way to send requests to the sidecar. */
export interface Requester {
  /** Rejects with `SidecarError`; if no sidecar is running, its kind is `connection_failed`. */
  request<M extends keyof Requests>(
    method: M,
    params: Requests[M]["params"],
    signal?: AbortSignal,
  ): Promise<Requests[M]["result"]>;
}

/** Typed notifications of the current sidecar. Subscriptions survive a restart. */
export interface Subscriber {
  on<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable;
}
