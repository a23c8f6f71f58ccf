/** The golden messages of the contract, and a sidecar that answers with them. */

import { PROTOCOL_VERSION } from "../../src/protocol.ts";
import { readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";
import { Emitter, type Disposable } from "../../src/base/events.ts";
import {
  SidecarError,
  type Requester,
  type Connect,
  type Subscriber,
  type Connection,
} from "../../src/sidecar/connection.ts";
import type { Delegation, ErrorInfo, Event, Notifications, Requests } from "../../src/protocol.ts";

const FOLDER = path.join(import.meta.dirname, "../../../protocol/examples");

export interface Golden {
  readonly title: string;
  readonly method: string;
  readonly params?: Record<string, unknown>;
  readonly expect?: {
    readonly result?: unknown;
    readonly error?: { readonly code: number; readonly message?: string; readonly data?: Partial<ErrorInfo> };
  };
}

export function golden(name: string): Golden {
  return JSON.parse(readFileSync(path.join(FOLDER, `${name}.json`), "utf8")) as Golden;
}

export function allGolden(): { name: string; message: Golden }[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".json"))
    .sort()
    .map((file) => ({ name: file.slice(0, -".json".length), message: golden(file.slice(0, -".json".length)) }));
}

export interface FoldExample {
  readonly title: string;
  readonly before: Delegation;
  /** Events, each with the fields that it changes; null: the field is gone. */
  readonly steps: readonly { readonly event: Event; readonly changes: Readonly<Record<string, unknown>> }[];
}

/** Delegations and events, with what the sidecar's `fold` computes. */
export function foldExamples(): FoldExample[] {
  const lines = readFileSync(path.join(FOLDER, "folds.jsonl"), "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as FoldExample);
}

/** The golden result of a request. */
export function result<M extends keyof Requests>(method: M, name: string): Requests[M]["result"] {
  const message = golden(name);
  if (message.method !== method) throw new Error(`${name} is about ${message.method}`);
  return structuredClone(message.expect?.result) as Requests[M]["result"];
}

type Handler = (params: never) => unknown;

/** Responses by method; a request without a prepared response is refused, so that no request is missed. */
export class GoldenSidecar implements Requester, Subscriber {
  readonly asked: { method: string; params: unknown }[] = [];
  readonly #handlers = new Map<string, Handler>();
  readonly #notified = new Map<string, Emitter<never>>();

  /** The response: a value, or a function of the parameters, which may throw a `SidecarError`. */
  answer<M extends keyof Requests>(
    method: M,
    answer:
      | Requests[M]["result"]
      | ((params: Requests[M]["params"]) => Requests[M]["result"] | Promise<Requests[M]["result"]>),
  ): this {
    this.#handlers.set(method, typeof answer === "function" ? (answer as Handler) : () => answer);
    return this;
  }

  async request<M extends keyof Requests>(method: M, params: Requests[M]["params"]): Promise<Requests[M]["result"]> {
    this.asked.push({ method, params });
    const handler = this.#handlers.get(method);
    if (!handler) throw new SidecarError({ kind: "unknown_method", message: `${method} is not prepared` });
    return structuredClone(await handler(params as never)) as Requests[M]["result"];
  }

  on<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable {
    let emitter = this.#notified.get(name);
    if (!emitter) this.#notified.set(name, (emitter = new Emitter<never>()));
    return (emitter as unknown as Emitter<Notifications[N]>).subscribe(listener);
  }

  notify<N extends keyof Notifications>(name: N, params: Notifications[N]): void {
    (this.#notified.get(name) as unknown as Emitter<Notifications[N]> | undefined)?.fire(params);
  }

  params(method: string): unknown[] {
    return this.asked.filter((asked) => asked.method === method).map((asked) => asked.params);
  }
}

/** For `createApp`: this sidecar instead of a process. */
export function inProcess(peer: GoldenSidecar): () => Connect {
  return () => () =>
    Promise.resolve({
      serverInfo: { protocolVersion: PROTOCOL_VERSION, version: "0.1.0", requests: [], notifications: [] },
      request: (method, params) => peer.request(method as never, params as never),
      onNotification: (method, listener) => peer.on(method as never, listener),
      stop: () => Promise.resolve(),
    } satisfies Connection);
}

export function refusal(name: string): SidecarError {
  const data = golden(name).expect?.error?.data;
  return new SidecarError({ kind: "internal", message: "", ...data });
}
