/**
 * Before a result is sent back: what that does to its pending changes. A reply to an agent that works without a model
 * would have no effect: another delegator is offered instead.
 */
import { t } from "../base/l10n.ts";
import type { Host } from "../host/host.ts";
import type { Delegation, FileDiff } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import { costText, displayPath } from "./formatting.ts";
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

/** What a follow-up takes from the review of a result, as sentences; empty if nothing. */
export function carriedText(files: readonly FileDiff[]): string {
  const pending = files.flatMap((file) => file.hunks.filter(({ state }) => state === "pending"));
  if (pending.length === 0) return "";
  const tested = pending.filter((hunk) => hunk.tested === true).length;
  const edited = files.filter(({ hunks }) => hunks.some((hunk) => hunk.edited && hunk.state === "pending"));
  const names = edited.map((file) => displayPath(file.path)).join(", ");
  return [
    pending.length === 1
      ? t("The pending change goes along: you can accept it again when the agent has finished.")
      : t("{0} pending changes go along: you can accept them again when the agent has finished.", pending.length),
    ...(tested > 0 ? [t("Tested now: {0}. The agent may change or drop them.", tested)] : []),
    ...(edited.length > 0 ? [t("The agent is told to keep your edits of {0}.", names)] : []),
  ].join(" ");
}

/** Ask before a result is sent back for better tests. */
export async function confirmStrengthening(
  { host, requester }: { readonly host: Pick<Host, "windows">; readonly requester: Requester },
  delegation: Delegation,
): Promise<boolean> {
  const { files } = await requester.request("understudy/delegations/diff", { id: delegation.id });
  const cost = costText(delegation);
  const strengthen = t("Strengthen Tests");
  const answer = await host.windows.message("info", t("Ask {0} for tests that notice more?", delegation.delegator), {
    modal: true,
    detail: [carriedText(files), cost === undefined ? "" : t("The result has cost {0} so far.", cost)].join(" ").trim(),
    buttons: [strengthen],
  });
  return answer === strengthen;
}
