/** Actions on what the engine knows, in a window that has read nothing yet. */

import type { Requester } from "../sidecar/connection.ts";
import type { Store } from "./store.ts";

/**
 * Call when a list is empty: if that is because no engine answers, reject with the reason, which has a button that
 * installs or starts it. Otherwise there is nothing in the list.
 */
export async function needEngine(requester: Requester, store: Pick<Store, "loaded">): Promise<void> {
  if (!store.loaded) await requester.request("understudy/version", {});
}
