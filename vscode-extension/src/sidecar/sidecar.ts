/**
 * Start, watch and restart the sidecar. Other modules use `request` and `on`, which work across restarts.
 *
 *     off → starting → running
 *            │  ↑   ╲      ↓
 *            │  └──── crashed → failed    (gave up; the user can restart it)
 *            ├→ missing                   (no program was found)
 *            └→ mismatch                  (it speaks another version of the protocol)
 *
 * `stop` leads from every state to off. A start waits until the previous process has exited.
 */

import { DisposableStore, Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { PROTOCOL_VERSION, type ErrorInfo, type Notifications, type Requests } from "../protocol.ts";
import type { FoundProgram, LocateResult } from "./locator.ts";
import {
  exitCause,
  exitText,
  ProcessExitError,
  editorHint,
  toErrorInfo,
  SidecarError,
  type Requester,
  type Connect,
  type ProcessExit,
  type ServerInfo,
  type Subscriber,
  type LaunchCommand,
  type Connection,
  type Repair,
} from "./connection.ts";

export type SidecarState =
  | { readonly kind: "off" }
  | { readonly kind: "starting"; readonly attempt: number }
  | { readonly kind: "missing"; readonly searched: readonly string[] }
  | { readonly kind: "running"; readonly found: FoundProgram; readonly serverInfo: ServerInfo }
  | {
      readonly kind: "mismatch";
      readonly found: FoundProgram;
      readonly upgrade: "extension" | "sidecar";
      readonly reported: string;
    }
  | { readonly kind: "crashed"; readonly cause: string; readonly exit: ProcessExit; readonly againInMs: number }
  | { readonly kind: "failed"; readonly cause: string; readonly exit: ProcessExit };

/** Pauses before each restart. After the last one the state is `failed`. */
export const BACKOFF_MS: readonly number[] = [0, 1_000, 3_000, 10_000, 30_000];
/** After running this long, the crash count starts again at zero. */
export const HEALTHY_MS = 120_000;
/** Time limit for a start. */
export const START_TIMEOUT_MS = 30_000;
/** Time limit for a response. */
export const ANSWER_MS = 120_000;
/** Requests that run programs of the user; the sidecar limits their time. */
const UNLIMITED_REQUESTS: ReadonlySet<keyof Requests> = new Set<keyof Requests>([
  "understudy/checks/test",
  "understudy/delegations/check",
  "understudy/delegations/commit",
  "understudy/delegations/wait",
  "understudy/delegators/test",
]);

export interface SidecarDeps {
  readonly locate: () => Promise<LocateResult>;
  readonly launch: (found: FoundProgram) => LaunchCommand;
  readonly connect: Connect;
  readonly log: (line: string) => void;
  /** The command that repairs the cause of an error response, if there is one; it replaces the hint. */
  readonly repair?: (info: ErrorInfo) => Repair | undefined;
  readonly now?: () => number;
}

export class Sidecar implements Requester, Subscriber, Disposable {
  readonly #deps: SidecarDeps;
  readonly #changed = new Emitter<SidecarState>();
  readonly #notified = new Map<string, Emitter<never>>();
  #state: SidecarState = { kind: "off" };
  #connection: Connection | undefined;
  #connectionDisposables = new DisposableStore();
  /** Aborted when `#connection` ends: its open requests get no response. */
  #disconnected = new AbortController();
  #crashes = 0;
  /** Output of the last failed start; the same output is not logged twice. */
  #lastStderr = "";
  #startedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Incremented by each start and stop; results of older generations are ignored. */
  #generation = 0;
  #starting: Promise<void> | undefined;
  /** Cancels the start in progress. */
  #abortStart: AbortController | undefined;
  /** A start waits for this: two processes at once would register the same commands. */
  #stopping: Promise<unknown> = Promise.resolve();
  /** The window is closing: do not start again. */
  #closed = false;

  readonly onDidChange = this.#changed.subscribe;

  constructor(deps: SidecarDeps) {
    this.#deps = deps;
  }

  get state(): SidecarState {
    return this.#state;
  }

  /** The program that runs, or would be started. */
  async program(): Promise<FoundProgram | undefined> {
    return this.#state.kind === "running" ? this.#state.found : (await this.#deps.locate()).found;
  }

  /** Start unless it is running or starting. Never rejects; see `state`. */
  start(): Promise<void> {
    if (this.#closed || this.#connection || this.#state.kind === "crashed") return Promise.resolve();
    return this.#starting ?? this.#launch();
  }

  /** Stop and start again; the crash count starts at zero. */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Resolves when no process is left, including one that was starting. */
  async stop(): Promise<void> {
    this.#generation += 1;
    clearTimeout(this.#timer);
    this.#crashes = 0;
    this.#lastStderr = "";
    this.#abortStart?.abort();
    const stopping = Promise.all([this.#stopping, this.#starting, this.#disconnect()?.stop()]);
    this.#stopping = stopping;
    this.#starting = undefined;
    this.#setState({ kind: "off" });
    await stopping;
  }

  /** Stop for good. */
  async end(): Promise<void> {
    this.#closed = true;
    await this.stop();
  }

  async request<M extends keyof Requests>(
    method: M,
    params: Requests[M]["params"],
    signal?: AbortSignal,
  ): Promise<Requests[M]["result"]> {
    // The first request starts the sidecar.
    if (this.#starting || this.#state.kind === "off") await this.start();
    const connection = this.#connection;
    if (!connection) throw this.#unavailableError();
    if (
      connection.serverInfo &&
      connection.serverInfo.requests.length > 0 &&
      !connection.serverInfo.requests.includes(method)
    ) {
      throw new SidecarError({
        kind: "unknown_method",
        message: t("Understudy {0} does not support {1}.", connection.serverInfo.version, method),
        hint: t("Update the engine."),
      });
    }
    try {
      const most = UNLIMITED_REQUESTS.has(method) ? undefined : ANSWER_MS;
      const asked = withTimeLimit(
        (given) => connection.request(method, params, given),
        most,
        this.#disconnected.signal,
        signal,
      );
      return (await asked) as Requests[M]["result"];
    } catch (error) {
      if (connection !== this.#connection) throw this.#unavailableError();
      const given = { ...toErrorInfo(error) };
      const repair = this.#deps.repair?.(given);
      const hint = repair ? "" : editorHint(given);
      delete given.hint;
      throw new SidecarError(hint === "" ? given : { ...given, hint }, repair);
    }
  }

  on<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable {
    let emitter = this.#notified.get(name);
    if (!emitter) {
      this.#notified.set(name, (emitter = new Emitter<never>()));
      if (this.#connection) this.#forward(this.#connection, name, emitter);
    }
    return (emitter as unknown as Emitter<Notifications[N]>).subscribe(listener);
  }

  dispose(): void {
    void this.end();
    this.#changed.dispose();
  }

  #launch(): Promise<void> {
    const starting = this.#launchOnce().finally(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    return (this.#starting = starting);
  }

  async #launchOnce(): Promise<void> {
    const generation = ++this.#generation;
    const abort = (this.#abortStart = new AbortController());
    clearTimeout(this.#timer);
    await this.#stopping;
    if (generation !== this.#generation) return;
    this.#setState({ kind: "starting", attempt: this.#crashes + 1 });
    let found: FoundProgram | undefined;
    let connection: Connection;
    try {
      const located = await this.#deps.locate();
      if (generation !== this.#generation) return;
      found = located.found;
      if (!found) {
        this.#deps.log(`no sidecar; looked at ${located.searched.join(", ")}`);
        this.#setState({ kind: "missing", searched: located.searched });
        return;
      }
      const ended = (exit: ProcessExit): void => {
        if (generation === this.#generation) this.#onExit(exit);
      };
      connection = await this.#deps.connect(this.#deps.launch(found), ended, abort.signal);
      if (this.#abortStart === abort) this.#abortStart = undefined; // a running process is shut down by `stop`
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#onExit(
        error instanceof ProcessExitError
          ? error.exit
          : { code: null, signal: null, lines: [], fault: toErrorInfo(error).message },
      );
      return;
    }
    if (generation !== this.#generation) {
      await connection.stop();
      return;
    }
    const wrong = findMismatch(connection.serverInfo);
    if (wrong || !connection.serverInfo) {
      this.#generation += 1;
      this.#setState({ kind: "mismatch", found, ...(wrong ?? { upgrade: "sidecar", reported: "" }) });
      await connection.stop();
      return;
    }
    this.#connection = connection;
    this.#startedAt = this.#now();
    for (const [name, emitter] of this.#notified) this.#forward(connection, name, emitter);
    this.#deps.log(`${found.command} (${found.origin}): Understudy ${connection.serverInfo.version}`);
    this.#setState({ kind: "running", found, serverInfo: connection.serverInfo });
  }

  #onExit(exit: ProcessExit): void {
    const ran = this.#disconnect() !== undefined;
    if (ran && this.#now() - this.#startedAt >= HEALTHY_MS) this.#crashes = 0;
    const cause = exitCause(exit);
    const pause = BACKOFF_MS[this.#crashes];
    const said = ran ? "" : exit.lines.join("\n");
    if (said !== this.#lastStderr) for (const line of ran ? [] : exit.lines) this.#deps.log(`sidecar: ${line}`);
    this.#lastStderr = said;
    this.#deps.log(`the sidecar ended: ${exitText(exit)}`);
    if (pause === undefined) {
      this.#setState({ kind: "failed", cause, exit });
      return;
    }
    this.#crashes += 1;
    this.#setState({ kind: "crashed", cause, exit: exit, againInMs: pause });
    this.#timer = setTimeout(() => void this.#launch(), pause);
  }

  #disconnect(): Connection | undefined {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#connectionDisposables.dispose();
    this.#connectionDisposables = new DisposableStore();
    this.#disconnected.abort();
    this.#disconnected = new AbortController();
    return connection;
  }

  #forward(connection: Connection, name: string, emitter: Emitter<never>): void {
    this.#connectionDisposables.add(connection.onNotification(name, (params) => emitter.fire(params)));
  }

  #setState(state: SidecarState): void {
    this.#state = state;
    this.#changed.fire(state);
  }

  #now(): number {
    return (this.#deps.now ?? Date.now)();
  }

  #unavailableError(): SidecarError {
    const state = this.#state;
    const message =
      state.kind === "missing"
        ? t("Understudy is not installed on this machine.")
        : state.kind === "mismatch"
          ? t("This extension and the installed engine are incompatible.")
          : state.kind === "crashed" || state.kind === "failed"
            ? t("Understudy stopped: {0}", state.cause)
            : t("Understudy is not running.");
    if (state.kind === "missing" || (state.kind === "mismatch" && state.upgrade === "sidecar")) {
      // The bundled engine: nothing is downloaded, and its progress is shown.
      const asks = state.kind === "missing" || state.found.origin === "storage";
      const repair = { title: t("Install Engine"), command: "understudy.install", asks };
      return new SidecarError({ kind: "connection_failed", message }, repair);
    }
    const hint = t("Select Understudy in the status bar for details.");
    const repair = { title: t("Show Options"), command: "understudy.showStatus" };
    return new SidecarError({ kind: "connection_failed", message, hint }, repair);
  }
}

/** Send a request; reject after `most` milliseconds without a response, or when the connection ends. */
async function withTimeLimit<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  most: number | undefined,
  dropped: AbortSignal,
  signal: AbortSignal | undefined,
): Promise<T> {
  const done = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const noAnswer = new Promise<never>((_, reject) => {
    const over = (message: string): void => {
      const hint = t("Restart the engine. Running delegations are not affected.");
      reject(new SidecarError({ kind: "timed_out", message, hint }));
      done.abort();
    };
    if (most !== undefined) {
      timer = setTimeout(() => over(t("Understudy has not responded for {0} seconds.", most / 1_000)), most);
    }
    dropped.addEventListener("abort", () => over(t("Understudy is not running.")), { signal: done.signal });
  });
  try {
    return await Promise.race([ask(signal ? AbortSignal.any([signal, done.signal]) : done.signal), noAnswer]);
  } finally {
    clearTimeout(timer);
    done.abort();
  }
}

/** Which side is outdated, and what the sidecar reported; undefined if the versions match. */
export function findMismatch(
  greeting: ServerInfo | undefined,
): { upgrade: "extension" | "sidecar"; reported: string } | undefined {
  if (!greeting) return { upgrade: "sidecar", reported: "" };
  if (greeting.protocolVersion === PROTOCOL_VERSION) return undefined;
  return {
    upgrade: greeting.protocolVersion > PROTOCOL_VERSION ? "extension" : "sidecar",
    reported: `Understudy ${greeting.version}, protocol ${greeting.protocolVersion}`,
  };
}
