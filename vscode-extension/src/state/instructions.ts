/** A reply to an agent that works without a model would have no effect: another delegator is offered instead. */
import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";
import type { Store } from "./store.ts";

/** Whether the agent of a delegation works with instructions; true if its delegator is not known. */
export function takesInstructions(
  store: Pick<Store, "delegator">,
  { delegator }: Pick<Delegation, "delegator">,
): boolean {
  return store.delegator(delegator)?.followsInstructions !== false;
}

/** Return whether the agent of a delegation follows instructions; if not, say so and offer another one. */
export async function followsInstructions(
  { host, store }: { host: Pick<Host, "windows" | "commands">; store: Pick<Store, "delegator"> },
  delegation: Pick<Delegation, "id" | "delegator">,
): Promise<boolean> {
  if (takesInstructions(store, delegation)) return true;
  const { id, delegator } = delegation;
  const retry = t("Retry with…");
  const text = t("{0} works without a model, so it follows no instructions. Retry with another delegator.", delegator);
  if ((await host.windows.message("info", text, { buttons: [retry] })) === retry) {
    await host.commands.run("understudy.delegations.retryWith", id);
  }
  return false;
}
