/** The rounds of one task: a delegation, and those that continue or repeat it. */

import type { Delegation } from "../protocol.ts";

/** The rounds of each task that has several, oldest first (IDs begin with their time), by the ID of each of them. */
export function roundsOf(delegations: readonly Delegation[]): Map<string, readonly Delegation[]> {
  const byId = new Map(delegations.map((delegation) => [delegation.id, delegation]));
  const firstOf = (delegation: Delegation): string => {
    const seen = new Set([delegation.id]);
    let first = delegation;
    for (;;) {
      const before = byId.get(first.parentId ?? "");
      if (!before || seen.has(before.id)) return first.id; // a damaged journal may name itself
      seen.add(before.id);
      first = before;
    }
  };
  const tasks = new Map<string, Delegation[]>();
  for (const delegation of delegations) {
    const first = firstOf(delegation);
    const rounds = tasks.get(first);
    if (rounds) rounds.push(delegation);
    else tasks.set(first, [delegation]);
  }
  const found = new Map<string, readonly Delegation[]>();
  for (const rounds of tasks.values()) {
    if (rounds.length < 2) continue;
    rounds.sort((one, other) => (one.id < other.id ? -1 : 1));
    for (const { id } of rounds) found.set(id, rounds);
  }
  return found;
}
