/**
 * The life of the sidecar: found, started, watched, started again. Nothing else starts it, and everybody else asks
 * through `ask` and hears through `on`, both of which outlive every process.
 *
 *     off → starting → running
 *            │  ↑   ╲      ↓
 *            │  └──── crashed → failed    (gave up; a person starts it again)
 *            ├→ missing                   (nothing was found that could be started)
 *            └→ mismatch                  (it greeted in another version of the protocol)
 *
 * `stop` leads from everywhere to off, and a start waits until what was stopped has ended.
 */

import { Bag, Emitter, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { PROTOCOL_VERSION, type Notifications, type Requests } from "../protocol.ts";
import type { Found, Located } from "./locate.ts";
import {
  causeOf,
  endOf,
  EndedError,
  errorInfo,
  SidecarError,
  type Asker,
  type Connect,
  type Ending,
  type Greeting,
  type Hearer,
  type Launch,
  type Wire,
} from "./wire.ts";

export type SidecarState =
  | { readonly kind: "off" }
  | { readonly kind: "starting"; readonly attempt: number }
  | { readonly kind: "missing"; readonly looked: readonly string[] }
  | { readonly kind: "running"; readonly found: Found; readonly greeting: Greeting }
  | {
      readonly kind: "mismatch";
      readonly found: Found;
      readonly upgrade: "extension" | "sidecar";
      readonly said: string;
    }
  | { readonly kind: "crashed"; readonly cause: string; readonly ending: Ending; readonly againInMs: number }
  | { readonly kind: "failed"; readonly cause: string; readonly ending: Ending };

/** Pauses before the next start; after the last one it stays down until a person starts it. */
export const BACKOFF_MS: readonly number[] = [0, 1_000, 3_000, 10_000, 30_000];
/** Who ran for so long is no crash loop: the count begins anew. */
export const HEALTHY_MS = 120_000;
/** A start that takes longer is given up. */
export const START_TIMEOUT_MS = 30_000;
/** An answer that takes longer does not come any more. */
export const ANSWER_MS = 120_000;
/** Answers that take as long as the programs of others: the sidecar limits those. */
const AS_LONG_AS_IT_TAKES: ReadonlySet<keyof Requests> = new Set<keyof Requests>([
  "understudy/delegations/check",
  "understudy/delegations/wait",
  "understudy/delegators/test",
]);

export interface SidecarParts {
  readonly locate: () => Promise<Located>;
  readonly launch: (found: Found) => Launch;
  readonly connect: Connect;
  readonly log: (line: string) => void;
  readonly now?: () => number;
}

export class Sidecar implements Asker, Hearer, Disposable {
  readonly #parts: SidecarParts;
  readonly #changed = new Emitter<SidecarState>();
  readonly #notified = new Map<string, Emitter<never>>();
  #state: SidecarState = { kind: "off" };
  #wire: Wire | undefined;
  #wireBag = new Bag();
  /** Nobody hears `#wire` any more: what is still asked has no answer. */
  #dropped = new AbortController();
  #crashes = 0;
  /** What the last start that failed said: one that fails again in the same way does not say it again. */
  #said = "";
  #since = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Counts starts and stops: what comes from an older one is ignored. */
  #turn = 0;
  #starting: Promise<void> | undefined;
  /** Ends the process of the start that is under way. */
  #giveUp: AbortController | undefined;
  /** No start begins before what ran has ended: two of them would offer the editor the same commands. */
  #stopping: Promise<unknown> = Promise.resolve();
  /** Nobody starts it any more: the window closes. */
  #over = false;

  readonly onDidChange = this.#changed.signal;

  constructor(parts: SidecarParts) {
    this.#parts = parts;
  }

  get state(): SidecarState {
    return this.#state;
  }

  /** Start unless it runs or is about to; never rejects: look at `state`. */
  start(): Promise<void> {
    if (this.#over || this.#wire || this.#state.kind === "crashed") return Promise.resolve();
    return this.#starting ?? this.#launch();
  }

  /** Stop what runs and start anew, with a fresh count of crashes. */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Resolves when no process is left, not even one that was about to run. */
  async stop(): Promise<void> {
    this.#turn += 1;
    clearTimeout(this.#timer);
    this.#crashes = 0;
    this.#said = "";
    this.#giveUp?.abort();
    const stopping = Promise.all([this.#stopping, this.#starting, this.#drop()?.stop()]);
    this.#stopping = stopping;
    this.#starting = undefined;
    this.#become({ kind: "off" });
    await stopping;
  }

  /** Stop for good. */
  async end(): Promise<void> {
    this.#over = true;
    await this.stop();
  }

  async ask<M extends keyof Requests>(
    method: M,
    params: Requests[M]["params"],
    signal?: AbortSignal,
  ): Promise<Requests[M]["result"]> {
    // Whoever asks needs it: the first question starts it.
    if (this.#starting || this.#state.kind === "off") await this.start();
    const wire = this.#wire;
    if (!wire) throw new SidecarError(this.#unavailable());
    if (wire.greeting && wire.greeting.requests.length > 0 && !wire.greeting.requests.includes(method)) {
      throw new SidecarError({
        kind: "unknown_method",
        message: t("Understudy {0} does not offer {1}.", wire.greeting.version, method),
        hint: t("Upgrade Understudy."),
      });
    }
    try {
      const most = AS_LONG_AS_IT_TAKES.has(method) ? undefined : ANSWER_MS;
      const asked = limited((given) => wire.request(method, params, given), most, this.#dropped.signal, signal);
      return (await asked) as Requests[M]["result"];
    } catch (error) {
      if (wire !== this.#wire) throw new SidecarError(this.#unavailable());
      throw new SidecarError(errorInfo(error));
    }
  }

  on<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable {
    let emitter = this.#notified.get(name);
    if (!emitter) {
      this.#notified.set(name, (emitter = new Emitter<never>()));
      if (this.#wire) this.#relay(this.#wire, name, emitter);
    }
    return (emitter as unknown as Emitter<Notifications[N]>).signal(listener);
  }

  dispose(): void {
    void this.end();
    this.#changed.dispose();
  }

  #launch(): Promise<void> {
    const starting = this.#begin().finally(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    return (this.#starting = starting);
  }

  async #begin(): Promise<void> {
    const turn = ++this.#turn;
    const giveUp = (this.#giveUp = new AbortController());
    clearTimeout(this.#timer);
    await this.#stopping;
    if (turn !== this.#turn) return;
    this.#become({ kind: "starting", attempt: this.#crashes + 1 });
    let found: Found | undefined;
    let wire: Wire;
    try {
      const located = await this.#parts.locate();
      if (turn !== this.#turn) return;
      found = located.found;
      if (!found) {
        this.#parts.log(`no sidecar; looked at ${located.looked.join(", ")}`);
        this.#become({ kind: "missing", looked: located.looked });
        return;
      }
      const ended = (ending: Ending): void => {
        if (turn === this.#turn) this.#ended(ending);
      };
      wire = await this.#parts.connect(this.#parts.launch(found), ended, giveUp.signal);
      if (this.#giveUp === giveUp) this.#giveUp = undefined; // what runs is stopped in good order
    } catch (error) {
      if (turn !== this.#turn) return;
      this.#ended(
        error instanceof EndedError
          ? error.ending
          : { code: null, signal: null, lines: [], fault: errorInfo(error).message },
      );
      return;
    }
    if (turn !== this.#turn) {
      await wire.stop();
      return;
    }
    const wrong = mismatch(wire.greeting);
    if (wrong || !wire.greeting) {
      this.#turn += 1;
      this.#become({ kind: "mismatch", found, ...(wrong ?? { upgrade: "sidecar", said: "" }) });
      await wire.stop();
      return;
    }
    this.#wire = wire;
    this.#since = this.#now();
    for (const [name, emitter] of this.#notified) this.#relay(wire, name, emitter);
    this.#parts.log(`${found.command} (${found.origin}): Understudy ${wire.greeting.version}`);
    this.#become({ kind: "running", found, greeting: wire.greeting });
  }

  #ended(ending: Ending): void {
    const ran = this.#drop() !== undefined;
    if (ran && this.#now() - this.#since >= HEALTHY_MS) this.#crashes = 0;
    const cause = causeOf(ending);
    const pause = BACKOFF_MS[this.#crashes];
    const said = ran ? "" : ending.lines.join("\n");
    if (said !== this.#said) for (const line of ran ? [] : ending.lines) this.#parts.log(`sidecar: ${line}`);
    this.#said = said;
    this.#parts.log(`the sidecar ended: ${endOf(ending)}`);
    if (pause === undefined) {
      this.#become({ kind: "failed", cause, ending });
      return;
    }
    this.#crashes += 1;
    this.#become({ kind: "crashed", cause, ending, againInMs: pause });
    this.#timer = setTimeout(() => void this.#launch(), pause);
  }

  #drop(): Wire | undefined {
    const wire = this.#wire;
    this.#wire = undefined;
    this.#wireBag.dispose();
    this.#wireBag = new Bag();
    this.#dropped.abort();
    this.#dropped = new AbortController();
    return wire;
  }

  #relay(wire: Wire, name: string, emitter: Emitter<never>): void {
    this.#wireBag.add(wire.onNotification(name, (params) => emitter.fire(params)));
  }

  #become(state: SidecarState): void {
    this.#state = state;
    this.#changed.fire(state);
  }

  #now(): number {
    return (this.#parts.now ?? Date.now)();
  }

  #unavailable(): { kind: "connection_failed"; message: string; hint: string } {
    const state = this.#state;
    const message =
      state.kind === "missing"
        ? t("Understudy is not installed on this machine.")
        : state.kind === "mismatch"
          ? t("The extension and Understudy do not understand each other.")
          : state.kind === "crashed" || state.kind === "failed"
            ? t("Understudy has stopped: {0}", state.cause)
            : t("Understudy is not running.");
    return { kind: "connection_failed", message, hint: t("Look at the Understudy item in the status bar.") };
  }
}

/** Ask, and take it for an error when there is no answer after `most` milliseconds, or once nobody is left to answer. */
async function limited<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  most: number | undefined,
  dropped: AbortSignal,
  signal: AbortSignal | undefined,
): Promise<T> {
  const done = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const noAnswer = new Promise<never>((_, reject) => {
    const over = (message: string): void => {
      const hint = t("Restart it: delegations go on meanwhile.");
      reject(new SidecarError({ kind: "timed_out", message, hint }));
      done.abort();
    };
    if (most !== undefined) {
      timer = setTimeout(() => over(t("Understudy has not answered for {0} seconds.", most / 1_000)), most);
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

/** Which side is too old, and what the other one said; undefined when they fit. */
export function mismatch(
  greeting: Greeting | undefined,
): { upgrade: "extension" | "sidecar"; said: string } | undefined {
  if (!greeting) return { upgrade: "sidecar", said: "" };
  if (greeting.protocolVersion === PROTOCOL_VERSION) return undefined;
  return {
    upgrade: greeting.protocolVersion > PROTOCOL_VERSION ? "extension" : "sidecar",
    said: `Understudy ${greeting.version}, protocol ${greeting.protocolVersion}`,
  };
}
