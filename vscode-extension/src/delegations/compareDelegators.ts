/** Let several delegators work on the same request, to compare their results. */

import { randomUUID } from "node:crypto";
import type { Host, PickItem } from "../host/host.ts";
import type { DelegatorEntry, StartParams } from "../protocol.ts";
import type { Requester } from "../sidecar/connection.ts";
import { delegatorFacts } from "../state/wording.ts";

/** Ask which delegators to start; none if the user cancelled. */
export async function pickDelegators(
  { windows }: Pick<Host, "windows">,
  title: string,
  entries: readonly DelegatorEntry[],
  placeholder: string,
): Promise<readonly string[]> {
  const items = entries.map((entry): PickItem => ({
    id: entry.delegator.name,
    label: entry.delegator.displayName ?? entry.delegator.name,
    description: delegatorFacts(entry, undefined),
    icon: entry.delegator.tool ? "terminal" : "server",
  }));
  const outcome = await windows.pick({ title, placeholder, many: true, items });
  return outcome.kind === "picked" ? outcome.ids : [];
}

/** Start one request with each delegator, as a group from one base; returns the IDs. */
export async function startComparison(
  requester: Requester,
  params: StartParams,
  delegators: readonly string[],
): Promise<readonly string[]> {
  const tasks = delegators.map((delegator) => ({ ...params, delegator, launch: null })); // options are of one delegator
  const started = await requester.request("understudy/groups/start", {
    kind: "compare",
    tasks,
    idempotencyKey: randomUUID(),
  });
  return started.group.delegations;
}
