/** What every feature receives: the host, the sidecar, the store. */

import type { Emitter } from "./base/events.ts";
import type { Host } from "./host/host.ts";
import type { Sidecar } from "./sidecar/sidecar.ts";
import type { Store } from "./state/store.ts";

/** Handles a command of a code action or lens from the sidecar, which is named after a request. */
export type Interceptor = (values: readonly unknown[]) => Promise<unknown>;

/** What every feature receives. */
export interface App {
  readonly host: Host;
  /** Sends requests to the current sidecar process and delivers its notifications. */
  readonly sidecar: Sidecar;
  readonly store: Store;
  /**
   * Request name → handler that replaces the sidecar's own when the user runs a code action or lens
   * (`understudy/delegations/start` reports the result). If the handler returns undefined, the sidecar runs the command.
   */
  readonly interceptors: Map<string, Interceptor>;
  /**
   * Fires with the ID of each delegation started in this window: its questions and its result are reported.
   */
  readonly started: Emitter<string>;
}
