/** Rows of delegations that were started together: one row for the batch, its members below it in their order. */

import { t } from "../base/l10n.ts";
import type { TreeRow } from "../host/host.ts";
import type { Delegation } from "../protocol.ts";
import { oneLine } from "../state/formatting.ts";
import { isLive, isToReview } from "../state/wording.ts";

const BATCH = "batch:";

/** Characters of the first title in the row of a batch, which distinguishes batches. */
const MAX_TITLE = 40;

export const batchRowId = (groupId: string): string => BATCH + groupId;

/** The ID of the group whose row this is. */
export function batchOf(value: unknown): string | undefined {
  return typeof value === "string" && value.startsWith(BATCH) ? value.slice(BATCH.length) : undefined;
}

/** The members of each group with several of them, in the order in which they joined: IDs begin with their time. */
export function batchesOf(delegations: readonly Delegation[]): Map<string, readonly Delegation[]> {
  const found = new Map<string, Delegation[]>();
  for (const delegation of delegations) {
    if (delegation.groupId === undefined) continue;
    const members = found.get(delegation.groupId);
    if (members) members.push(delegation);
    else found.set(delegation.groupId, [delegation]);
  }
  for (const [id, members] of found) {
    if (members.length < 2) found.delete(id);
    else members.sort((one, other) => (one.id < other.id ? -1 : 1));
  }
  return found;
}

export function batchRow(groupId: string, members: readonly Delegation[]): TreeRow {
  const live = members.filter(isLive);
  const queued = live.filter(({ state }) => state === "queued").length;
  const ended = new Set(members.filter((member) => !isLive(member)).map(({ id }) => id));
  const held = live.filter(
    ({ state, after }) =>
      state === "queued" && after?.some((id) => members.some((one) => one.id === id) && !ended.has(id)),
  ).length;
  const asking = members.filter(({ waitingFor }) => waitingFor !== undefined).length;
  const toReview = members.filter(isToReview).length;
  const running = live.length - queued;
  const cost = members.reduce((sum, { costUsd }) => sum + Number(costUsd ?? 0), 0);
  const facts = [
    t("{0} of {1} done", members.length - live.length, members.length),
    ...(asking > 0 ? [t("{0} asking", asking)] : []),
    ...(running > 0 ? [t("{0} running", running)] : []),
    ...(queued > held ? [t("{0} waiting", queued - held)] : []),
    ...(held > 0 ? [t("{0} waiting for others", held)] : []),
    ...(toReview > 0 ? [t("{0} to review", toReview)] : []),
    ...(cost > 0 ? [`$${cost.toFixed(2)}`] : []),
    oneLine(members[0]?.title ?? "", MAX_TITLE),
  ];
  const label = t("Batch of {0}", members.length);
  return {
    id: batchRowId(groupId),
    label,
    description: facts.join(" · "),
    icon: { id: live.length > 0 ? "run-all" : "checklist" },
    children: live.length > 0 || toReview > 0 ? "expanded" : "collapsed",
    context: [
      "batch",
      ...(live.length > 0 ? ["running"] : []),
      ...(toReview > 0 ? ["review"] : []),
      ...(isComparable(members) ? ["comparable"] : []),
    ].join(" "),
    spoken: [label, ...facts].join(", "),
  };
}

/** Whether two of them have results of the same request. */
export function isComparable(members: readonly Delegation[]): boolean {
  const titles = members.flatMap(({ title, result }) => (result && result.files.length > 0 ? [title] : []));
  return new Set(titles).size < titles.length;
}
