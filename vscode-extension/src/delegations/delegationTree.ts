/**
 * The view of delegations: waiting for you, running, to review, done, and those of other folders. Rows are made when
 * they are drawn; long groups a page at a time. Time is told only while somebody can see it.
 */

import { Emitter, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import { markdown } from "../base/markdown.ts";
import type { Row, Rows } from "../host/host.ts";
import type { Change, Store } from "../model/store.ts";
import {
  ago,
  checkWords,
  cost,
  duration,
  isLive,
  isToReview,
  nowWords,
  oneLine,
  pendingWords,
  spent,
  spokenDuration,
  stateIcon,
  stateName,
  tokens,
  verdictName,
  verdictWords,
} from "../model/words.ts";
import type { Delegation } from "../protocol.ts";
import { delegationOf, rowOfDelegation } from "./delegationIds.ts";

export const DELEGATIONS_VIEW = "understudy.delegations";
/** How many of a group are drawn at first, and how many more each time. */
export const PAGE_OF_GROUP = 50;

const GROUP = "group:";
const MORE = "more:";
const GROUPS = ["waiting", "running", "review", "done", "elsewhere"] as const;
export type Group = (typeof GROUPS)[number];

type RowStore = Pick<Store, "delegations" | "delegation" | "hasMore" | "loaded" | "onDidChange">;

export interface DelegationRowsParts {
  readonly store: RowStore;
  /** Whether a delegation belongs to this window. */
  readonly here: (delegation: Delegation) => boolean;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class DelegationRows implements Rows, Disposable {
  readonly #store: RowStore;
  readonly #here: (delegation: Delegation) => boolean;
  readonly #now: () => number;
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly #subscription: Disposable;
  readonly #shown: Record<Group, number> = { waiting: 0, running: 0, review: 0, done: 0, elsewhere: 0 };
  /** What was drawn last, by row, so that an event that changes nothing redraws nothing. */
  readonly #drawn = new Map<string, string>();
  #groups: Map<Group, readonly Delegation[]> | undefined;
  #groupOf = new Map<string, Group>();
  #clock: NodeJS.Timeout | undefined;
  #slowClock: NodeJS.Timeout | undefined;
  #visible = false;

  readonly onDidChange = this.#changed.signal;

  constructor({ store, here, now }: DelegationRowsParts) {
    this.#store = store;
    this.#here = here;
    this.#now = now ?? Date.now;
    for (const group of GROUPS) this.#shown[group] = PAGE_OF_GROUP;
    this.#subscription = store.onDidChange((change) => this.#take(change));
  }

  /** How many there are in a group. */
  count(group: Group): number {
    return this.#all().get(group)?.length ?? 0;
  }

  children(id?: string): readonly string[] {
    if (id === undefined) return GROUPS.filter((group) => this.count(group) > 0).map((group) => GROUP + group);
    const group = groupOf(id);
    if (group === undefined) return [];
    const all = this.#all().get(group) ?? [];
    const most = this.#shown[group];
    const ids = all.slice(0, most).map((delegation) => rowOfDelegation(delegation.id));
    const more = all.length > most || (group === "done" && this.#store.hasMore);
    return more ? [...ids, MORE + group] : ids;
  }

  parent(id: string): string | undefined {
    if (id.startsWith(MORE)) return GROUP + id.slice(MORE.length);
    const delegation = delegationOf(id);
    this.#all();
    const group = delegation === undefined ? undefined : this.#groupOf.get(delegation);
    return group === undefined ? undefined : GROUP + group;
  }

  row(id: string): Row | undefined {
    const row = this.#row(id);
    if (row) this.#drawn.set(id, JSON.stringify(row));
    return row;
  }

  /** Show another page of a group. True: the store has to be asked for older ones. */
  more(group: Group): boolean {
    this.#shown[group] += PAGE_OF_GROUP;
    this.#changed.fire([GROUP + group]);
    return this.count(group) < this.#shown[group] && this.#store.hasMore;
  }

  /** Time is told while the view is visible. */
  setVisible(visible: boolean): void {
    this.#visible = visible;
    if (visible) this.#redraw([...this.#drawn.keys()]);
    // How long ago something ended is told in minutes.
    clearInterval(this.#slowClock);
    if (visible) this.#slowClock = setInterval(() => this.#redraw([...this.#drawn.keys()]), 60_000);
    this.#wind();
  }

  dispose(): void {
    clearInterval(this.#clock);
    clearInterval(this.#slowClock);
    this.#subscription.dispose();
    this.#changed.dispose();
  }

  #row(id: string): Row | undefined {
    if (id.startsWith(MORE)) return this.#moreRow(id, id.slice(MORE.length) as Group);
    const group = groupOf(id);
    if (group !== undefined) return groupRow(id, group, this.count(group));
    const name = delegationOf(id);
    const delegation = name === undefined ? undefined : this.#store.delegation(name);
    return delegation && delegationRow(id, delegation, this.#now(), this.#here(delegation));
  }

  #moreRow(id: string, group: Group): Row {
    const left = this.count(group) - this.#shown[group];
    const label = left > 0 ? t("Show {0} more", Math.min(left, PAGE_OF_GROUP)) : t("Load older ones");
    return {
      id,
      label,
      icon: { id: "ellipsis" },
      children: "none",
      context: "more",
      spoken: label,
      command: { id: "understudy.delegations.more", title: label, arguments: [group] },
    };
  }

  #all(): Map<Group, readonly Delegation[]> {
    if (this.#groups) return this.#groups;
    const groups = new Map<Group, Delegation[]>(GROUPS.map((group) => [group, []]));
    this.#groupOf = new Map();
    for (const delegation of this.#store.delegations) {
      const group = this.#place(delegation);
      groups.get(group)?.push(delegation);
      this.#groupOf.set(delegation.id, group);
    }
    return (this.#groups = groups);
  }

  #place(delegation: Delegation): Group {
    if (!this.#here(delegation)) return "elsewhere";
    if (delegation.state === "waiting") return "waiting";
    if (isLive(delegation)) return "running";
    return isToReview(delegation) ? "review" : "done";
  }

  #take(change: Change): void {
    const before = this.#groupOf;
    const moved =
      change.delegationList ||
      [...change.delegations].some((id) => {
        const delegation = this.#store.delegation(id);
        return delegation === undefined || this.#place(delegation) !== before.get(id);
      });
    if (change.delegations.size > 0 || moved) this.#groups = undefined;
    if (moved) {
      // The editor keeps a row under one parent: a move is told by drawing everything anew.
      this.#drawn.clear();
      this.#changed.fire(undefined);
    } else if (this.#visible) {
      this.#redraw([...change.delegations].map(rowOfDelegation));
    }
    this.#wind();
  }

  #redraw(ids: readonly string[]): void {
    const different = ids.filter((id) => {
      const drawn = this.#drawn.get(id);
      if (drawn === undefined) return false;
      const row = this.#row(id);
      return row !== undefined && JSON.stringify(row) !== drawn;
    });
    if (different.length > 0) this.#changed.fire(different);
  }

  /** The clock runs while something runs and somebody looks. */
  #wind(): void {
    const needed = this.#visible && this.#store.delegations.some(isLive);
    if (needed) {
      this.#clock ??= setInterval(() => {
        this.#redraw(this.#store.delegations.filter(isLive).map(({ id }) => rowOfDelegation(id)));
      }, 1_000);
    } else {
      clearInterval(this.#clock);
      this.#clock = undefined;
    }
  }
}

function groupOf(id: string): Group | undefined {
  return GROUPS.find((group) => id === GROUP + group);
}

function groupRow(id: string, group: Group, count: number): Row {
  const label = {
    waiting: t("Waiting for You"),
    running: t("Running"),
    review: t("To Review"),
    done: t("Done"),
    elsewhere: t("In Other Folders"),
  }[group];
  const quiet = group === "done" || group === "elsewhere";
  return {
    id,
    label,
    description: String(count),
    children: quiet ? "collapsed" : "expanded",
    context: "group",
    spoken: count === 1 ? t("{0}, 1 delegation", label) : t("{0}, {1} delegations", label, count),
  };
}

function delegationRow(id: string, delegation: Delegation, now: number, here: boolean): Row {
  const live = isLive(delegation);
  const toReview = isToReview(delegation);
  const facts: string[] = [];
  if (live) {
    facts.push(duration(spent(delegation, now)));
    if (delegation.waitingFor) facts.push(oneLine(delegation.waitingFor.title, 60));
    else if (delegation.state !== "running" || delegation.activity) facts.push(oneLine(nowWords(delegation), 60));
  } else {
    facts.push(stateName(delegation));
    if (toReview) facts.push(pendingWords(delegation));
  }
  const amounts = [tokens(delegation), cost(delegation)].filter((fact) => fact !== undefined);
  if (live) facts.push(delegation.delegator, ...amounts);
  else facts.push(ago(delegation.finishedAt ?? delegation.startedAt, now), delegation.delegator, ...amounts);
  if (!here) facts.push(folderName(delegation.workspace));
  const context = ["delegation"];
  if (delegation.state === "waiting") context.push("waiting");
  else if (live) context.push("running");
  else if (delegation.rescueRef !== undefined) context.push("discarded");
  else context.push(toReview ? "review" : "done");
  if (!live && delegation.worktree !== undefined && delegation.rescueRef === undefined) context.push("tree");
  // What is decided can be looked at again, and an accept be taken back.
  if (!live && delegation.rescueRef === undefined && (delegation.result?.files.length ?? 0) > 0)
    context.push("changes");
  const open = { id: "understudy.delegations.open", title: t("Open the Transcript"), arguments: [delegation.id] };
  return {
    id,
    label: delegation.title,
    description: facts.join(" · "),
    tooltip: tooltip(delegation, now),
    icon: stateIcon(delegation),
    children: "none",
    context: context.join(" "),
    spoken: [
      delegation.title,
      ...(live && !facts[1]?.startsWith(stateName(delegation)) ? [stateName(delegation)] : []),
      ...(live ? [spokenDuration(Math.floor(spent(delegation, now) / 60_000) * 60_000)] : []),
      ...facts.slice(live ? 1 : 0),
    ].join(", "),
    command: toReview ? { ...open, id: "understudy.review.open", title: t("Review") } : open,
  };
}

function tooltip(delegation: Delegation, now: number): string {
  const lines = [`**${markdown(delegation.title)}**`, ""];
  const fact = (name: string, value: string | undefined): void => {
    if (value) lines.push(`- ${name}: ${markdown(value)}`);
  };
  if (delegation.verdict && !isLive(delegation)) {
    lines.push(markdown(`${verdictWords(delegation.verdict, delegation.reservations)}.`), "");
  } else {
    fact(t("Now"), nowWords(delegation));
  }
  if (delegation.waitingFor) {
    fact(t("Asks"), `${delegation.waitingFor.title}: ${oneLine(delegation.waitingFor.detail, 200)}`);
  }
  if (delegation.error) lines.push(markdown(`${delegation.error.message} ${delegation.error.hint ?? ""}`), "");
  const tries = delegation.attempts.map(({ delegator }) => delegator);
  fact(t("Delegator"), tries.length > 1 ? tries.join(" → ") : delegation.delegator);
  fact(t("Recipe"), delegation.recipe);
  fact(t("Took"), duration(spent(delegation, now)));
  fact(t("Tokens"), usageWords(delegation));
  fact(t("Cost"), cost(delegation));
  for (const check of delegation.checks) fact(check.name, checkWords(check));
  if (delegation.review.accepted + delegation.review.rejected + delegation.review.pending > 0) {
    const { pending, accepted, rejected } = delegation.review;
    fact(t("Changes"), t("{0} pending, {1} accepted, {2} rejected", pending, accepted, rejected));
  }
  fact(t("Folder"), delegation.workspace);
  return lines.join("\n");
}

function usageWords({ usage }: Delegation): string | undefined {
  if (usage.inputTokens + usage.outputTokens === 0) return undefined;
  return t("{0} read, {1} written", usage.inputTokens.toLocaleString(), usage.outputTokens.toLocaleString());
}

function folderName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A line for pickers: how it stands. */
export function standing(delegation: Delegation): string {
  if (delegation.waitingFor) return oneLine(delegation.waitingFor.title, 80);
  if (isLive(delegation)) return delegation.activity ?? stateName(delegation);
  return delegation.verdict ? verdictName(delegation.verdict) : stateName(delegation);
}
