/** One running sidecar as the rest sees it: requests, notifications, its end. */

import type { Disposable } from "../base/emitter.ts";
import type { ErrorInfo, Notifications, Requests } from "../protocol.ts";

/** What `initialize` says about us, at `capabilities.experimental.understudy`. */
export interface Greeting {
  readonly protocolVersion: number;
  readonly version: string;
  readonly requests: readonly string[];
  readonly notifications: readonly string[];
}

export interface Wire {
  /** Absent: whoever answered is no Understudy, or one that is too old to say. */
  readonly greeting: Greeting | undefined;
  /** `params` is always given: an object, `{}` where there is nothing to say. */
  request(method: string, params: object, signal?: AbortSignal): Promise<unknown>;
  onNotification(method: string, listener: (params: never) => void): Disposable;
  /** Ends the process in good order; never throws. */
  stop(): Promise<void>;
}

/** How a sidecar process ended. */
export interface Ending {
  readonly code: number | null;
  readonly signal: string | null;
  /** The last lines of its standard error. */
  readonly lines: readonly string[];
  /** It could not even be started, or it did not answer as it should. */
  readonly fault?: string;
}

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** What goes along with `initialize`. */
  readonly trusted: boolean;
}

/**
 * Start a sidecar and greet it. `ended` is called exactly once when a process that had greeted ends without `stop`;
 * a start that fails rejects with `EndedError`, and so does one that `giveUp` breaks off. Either way no process is left.
 * What it writes to standard error is logged once it has greeted; what a start that fails wrote is in `EndedError` alone.
 */
export type Connect = (launch: Launch, ended: (ending: Ending) => void, giveUp: AbortSignal) => Promise<Wire>;

export class EndedError extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super(causeOf(ending));
    this.ending = ending;
  }
}

/** In words for people: the last thing it said, else how it ended. */
export function causeOf(ending: Ending): string {
  const lines = ending.lines.map((line) => line.trim()).filter((line) => line !== "");
  const said = lines.findLast((line) => /^(?:error|\w*Error):/.test(line)) ?? lines.at(-1);
  return said ? `${said} (${endOf(ending)})` : endOf(ending);
}

/** How it ended, without what it said. */
export function endOf(ending: Ending): string {
  // Whoever does not answer is ended by us: how says less than why.
  const how = ending.signal ? `ended by ${ending.signal}` : ending.code === null ? "ended" : `exit code ${ending.code}`;
  return ending.fault ?? how;
}

/** An error that the sidecar answered, or that kept it from answering. Decide by `kind`, show `message` and `hint`. */
export class SidecarError extends Error {
  readonly info: ErrorInfo;

  constructor(info: ErrorInfo) {
    super(info.message);
    this.name = "SidecarError";
    this.info = info;
  }

  get kind(): ErrorInfo["kind"] {
    return this.info.kind;
  }

  get hint(): string | undefined {
    return this.info.hint;
  }
}

/** Whatever was thrown, as what the contract calls an error. */
export function errorInfo(error: unknown): ErrorInfo {
  if (error instanceof SidecarError) return error.info;
  const data = (error as { data?: Partial<ErrorInfo> } | undefined)?.data;
  const message = error instanceof Error ? error.message : String(error);
  if (typeof data?.kind === "string" && typeof data.message === "string") return data as ErrorInfo;
  if (typeof data?.kind === "string") return { ...data, kind: data.kind, message };
  return { kind: "internal", message };
}

/** The typed requests; the only way to ask the sidecar anything. */
export interface Asker {
  /** Rejects with `SidecarError`; when no sidecar runs, with kind `connection_failed`. */
  ask<M extends keyof Requests>(
    method: M,
    params: Requests[M]["params"],
    signal?: AbortSignal,
  ): Promise<Requests[M]["result"]>;
}

/** The typed notifications. They come from whatever sidecar runs: a restart loses no listener. */
export interface Hearer {
  on<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable;
}
