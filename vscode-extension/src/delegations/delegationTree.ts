/**
 * The Delegations view: needing attention, running, to review, done, and delegations of other folders. Delegations that
 * were started together are one row there, with its members below it. Rows are created when they are drawn, long groups
 * page by page. Times are updated only while the view is visible.
 */

import { canBeStrengthened, droppableTests, isUntested, testedText } from "../state/mutationWording.ts";
import { Emitter, type Disposable } from "../base/events.ts";
import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import type { TreeRow, TreeDataProvider } from "../host/host.ts";
import type { Change, Store } from "../state/store.ts";
import {
  checkText,
  isFailure,
  isLive,
  isToReview,
  needsAttention,
  activityText,
  changesText,
  stateIcon,
  stateName,
  verdictName,
  verdictSummary,
} from "../state/wording.ts";
import {
  errorText,
  failureFacts,
  oneLine,
  shortenMiddle,
  shortErrorText,
  relativeTime,
  costOrigin,
  costText,
  duration,
  elapsed,
  spokenDuration,
  tokensText,
} from "../state/formatting.ts";
import type { Delegation } from "../protocol.ts";
import { delegationIdOf, delegationRowId } from "../state/delegationUris.ts";
import { takesInstructions } from "../state/instructions.ts";
import { questionText } from "../state/questions.ts";
import { batchesOf, batchOf, batchRow, batchRowId } from "./batchRows.ts";

export const DELEGATIONS_VIEW = "understudy.delegations";

/** Number of rows that are shown of a group at first, and that each “Show more” adds. */
export const GROUP_PAGE_SIZE = 50;

const GROUP = "group:";
const MORE = "more:";
const GROUPS = ["attention", "running", "review", "done", "elsewhere"] as const;
export type Group = (typeof GROUPS)[number];

type RowStore = Pick<
  Store,
  "delegations" | "delegation" | "delegator" | "recipes" | "hasMore" | "loaded" | "onDidChange"
>;

export interface DelegationTreeDeps {
  readonly store: RowStore;
  /** Whether a delegation belongs to this window. */
  readonly inWindow: (delegation: Delegation) => boolean;
  /** Whether the window has several folders, so that rows name theirs. */
  readonly manyFolders?: () => boolean;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class DelegationTree implements TreeDataProvider, Disposable {
  readonly #store: RowStore;
  readonly #inWindow: (delegation: Delegation) => boolean;
  readonly #manyFolders: () => boolean;
  readonly #now: () => number;
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly #subscription: Disposable;
  readonly #limits: Record<Group, number> = { attention: 0, running: 0, review: 0, done: 0, elsewhere: 0 };
  /** The last drawn rows by ID, so that unchanged rows are not redrawn. */
  readonly #drawn = new Map<string, string>();
  /** What was below each group after the last change: the store itself has only the new state. */
  #shownPlaces: ReadonlyMap<Group, string>;
  #groups: Map<Group, readonly Delegation[]> | undefined;
  /** The IDs of rows directly below a group, in order. */
  #entries = new Map<Group, readonly string[]>();
  #batches = new Map<string, readonly Delegation[]>();
  /** The group of each delegation, and of each batch by the ID of its row. */
  #groupById = new Map<string, Group>();
  /** The IDs of delegations that others continue or repeat. */
  #parents: ReadonlySet<string> | undefined;
  #clock: NodeJS.Timeout | undefined;
  #slowClock: NodeJS.Timeout | undefined;
  #visible = false;

  readonly onDidChange = this.#changed.subscribe;

  constructor({ store, inWindow: here, manyFolders = () => false, now }: DelegationTreeDeps) {
    this.#store = store;
    this.#inWindow = here;
    this.#manyFolders = manyFolders;
    this.#now = now ?? Date.now;
    for (const group of GROUPS) this.#limits[group] = GROUP_PAGE_SIZE;
    this.#shownPlaces = this.#places();
    this.#subscription = store.onDidChange((change) => this.#onChange(change));
  }

  /** Number of delegations in a group. */
  count(group: Group): number {
    return this.#grouped().get(group)?.length ?? 0;
  }

  children(id?: string): readonly string[] {
    this.#grouped();
    if (id === undefined) {
      return GROUPS.filter((group) => (this.#entries.get(group)?.length ?? 0) > 0).map((group) => GROUP + group);
    }
    const batch = batchOf(id);
    if (batch !== undefined) return (this.#batches.get(batch) ?? []).map((member) => delegationRowId(member.id));
    const group = groupOf(id);
    if (group === undefined) return [];
    const all = this.#entries.get(group) ?? [];
    const most = this.#limits[group];
    const ids = all.slice(0, most);
    const showMore = all.length > most || (group === "done" && this.#store.hasMore);
    return showMore ? [...ids, MORE + group] : ids;
  }

  parent(id: string): string | undefined {
    if (id.startsWith(MORE)) return GROUP + id.slice(MORE.length);
    const delegation = delegationIdOf(id);
    this.#grouped();
    const batch = delegation === undefined ? undefined : this.#store.delegation(delegation)?.groupId;
    if (batch !== undefined && this.#batches.has(batch)) return batchRowId(batch);
    const group = this.#groupById.get(delegation ?? id);
    return group === undefined ? undefined : GROUP + group;
  }

  row(id: string): TreeRow | undefined {
    const row = this.#row(id);
    if (row) this.#drawn.set(id, JSON.stringify(row));
    return row;
  }

  /** Show one more page of a group. Returns true if the store must read older delegations first. */
  more(group: Group): boolean {
    this.#limits[group] += GROUP_PAGE_SIZE;
    this.#changed.fire([GROUP + group]);
    return (this.#entries.get(group)?.length ?? 0) < this.#limits[group] && this.#store.hasMore;
  }

  /** Update times only while the view is visible. */
  setVisible(visible: boolean): void {
    this.#visible = visible;
    if (visible) this.#redraw([...this.#drawn.keys()]);
    // Times of finished delegations change once a minute.
    clearInterval(this.#slowClock);
    if (visible) this.#slowClock = setInterval(() => this.#redraw([...this.#drawn.keys()]), 60_000);
    this.#updateClock();
  }

  dispose(): void {
    clearInterval(this.#clock);
    clearInterval(this.#slowClock);
    this.#subscription.dispose();
    this.#changed.dispose();
  }

  #row(id: string): TreeRow | undefined {
    if (id.startsWith(MORE)) return this.#moreRow(id, id.slice(MORE.length) as Group);
    const group = groupOf(id);
    if (group !== undefined) return groupRow(id, group, this.#size(group));
    const batch = batchOf(id);
    if (batch !== undefined) {
      this.#grouped();
      const members = this.#batches.get(batch);
      return members && batchRow(batch, members);
    }
    const name = delegationIdOf(id);
    const delegation = name === undefined ? undefined : this.#store.delegation(name);
    if (!delegation) return undefined;
    return delegationRow(id, delegation, {
      now: this.#now(),
      namesFolder: !this.#inWindow(delegation) || this.#manyFolders(),
      instructable: takesInstructions(this.#store, delegation),
      recipe: this.#store.recipes.find(({ name }) => name === delegation.recipe)?.title ?? "",
    });
  }

  #moreRow(id: string, group: Group): TreeRow {
    const left = (this.#entries.get(group)?.length ?? 0) - this.#limits[group];
    const label = left > 0 ? t("Show {0} more", Math.min(left, GROUP_PAGE_SIZE)) : t("Load older delegations");
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

  #grouped(): Map<Group, readonly Delegation[]> {
    if (this.#groups) return this.#groups;
    const groups = new Map<Group, Delegation[]>(GROUPS.map((group) => [group, []]));
    const entries = new Map<Group, string[]>(GROUPS.map((group) => [group, []]));
    this.#groupById = new Map();
    this.#batches = batchesOf(this.#store.delegations);
    for (const delegation of this.#store.delegations) {
      const group = this.#groupFor(delegation);
      groups.get(group)?.push(delegation);
      this.#groupById.set(delegation.id, group);
      const members = delegation.groupId === undefined ? undefined : this.#batches.get(delegation.groupId);
      if (delegation.groupId === undefined || members === undefined) {
        entries.get(group)?.push(delegationRowId(delegation.id));
        continue;
      }
      const row = batchRowId(delegation.groupId);
      if (this.#groupById.has(row)) continue;
      // Where a batch is depends on the member that needs the user most.
      const own = new Set(members.map((member) => this.#groupFor(member)));
      const place = GROUPS.find((one) => own.has(one)) ?? group;
      this.#groupById.set(row, place);
      entries.get(place)?.push(row);
    }
    this.#entries = entries;
    return (this.#groups = groups);
  }

  /** The number of delegations in the rows of a group. */
  #size(group: Group): number {
    this.#grouped();
    const sizes = (this.#entries.get(group) ?? []).map((id) => this.#batches.get(batchOf(id) ?? "")?.length ?? 1);
    return sizes.reduce((all, size) => all + size, 0);
  }

  #groupFor(delegation: Delegation): Group {
    if (!this.#inWindow(delegation)) return "elsewhere";
    if (needsAttention(delegation) && !this.#isRetried(delegation)) return "attention";
    if (isLive(delegation)) return "running";
    return isToReview(delegation) ? "review" : "done";
  }

  /** Whether a failed run was started again: the new run shows the outcome. */
  #isRetried(delegation: Delegation): boolean {
    if (!isFailure(delegation)) return false;
    this.#parents ??= new Set(this.#store.delegations.flatMap(({ parentId }) => parentId ?? []));
    return this.#parents.has(delegation.id);
  }

  #onChange(change: Change): void {
    if (change.delegationList) this.#parents = undefined;
    const before = this.#shownPlaces;
    if (change.delegations.size > 0 || change.delegationList) this.#groups = undefined;
    const after = (this.#shownPlaces = this.#places());
    const different = new Set(GROUPS.filter((group) => before.get(group) !== after.get(group)));
    if (change.delegators && this.#visible) this.#redraw([...this.#drawn.keys()]);
    if ([...different].some((group) => !before.has(group) || !after.has(group))) {
      // A group appears or disappears: only the view itself has it as a child.
      this.#drawn.clear();
      this.#changed.fire(undefined);
    } else {
      if (different.size > 0) this.#redrawGroups(different);
      this.#redrawChanged(change);
    }
    this.#updateClock();
  }

  /**
   * Redraw groups in which rows came, went or changed places; the others stay as they are. One event names all groups
   * between which a row moves: the editor knows a row below one parent only, and forgets the old one first.
   */
  #redrawGroups(groups: ReadonlySet<Group>): void {
    for (const id of this.#drawn.keys()) {
      const group = this.#groupAbove(id);
      if (group === undefined || groups.has(group)) this.#drawn.delete(id);
    }
    this.#changed.fire([...groups].map((group) => GROUP + group));
  }

  /** The group that has a row, or a row above it; undefined for rows that no longer exist. */
  #groupAbove(id: string): Group | undefined {
    for (let at: string | undefined = id; at !== undefined; at = this.parent(at)) {
      const group = groupOf(at);
      if (group !== undefined) return group;
    }
    return undefined;
  }

  /** Redraw the rows of changed delegations, and of the batches that they belong to. */
  #redrawChanged({ delegations }: Change): void {
    if (!this.#visible) return;
    const batches = [...delegations].map((id) => this.#store.delegation(id)?.groupId);
    this.#redraw([
      ...[...delegations].map(delegationRowId),
      ...new Set(batches.flatMap((batch) => (batch === undefined ? [] : [batchRowId(batch)]))),
    ]);
  }

  /** What is below each group that is shown, in order, with the members of batches. */
  #places(): Map<Group, string> {
    this.#grouped();
    const filled = [...this.#entries].filter(([, ids]) => ids.length > 0);
    return new Map(
      filled.map(([group, ids]) => {
        const members = ids.map((id) => [id, ...(this.#batches.get(batchOf(id) ?? "") ?? []).map((one) => one.id)]);
        return [group, JSON.stringify([members, group === "done" && this.#store.hasMore])];
      }),
    );
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

  /** The clock runs only while a delegation is running and the view is visible. */
  #updateClock(): void {
    const needed = this.#visible && this.#store.delegations.some(isLive);
    if (needed) {
      this.#clock ??= setInterval(() => {
        this.#redraw(this.#store.delegations.filter(isLive).map(({ id }) => delegationRowId(id)));
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

function groupRow(id: string, group: Group, count: number): TreeRow {
  const label = {
    attention: t("Needs Attention"),
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
    context: group === "attention" ? "group attention" : "group",
    spoken: count === 1 ? t("{0}, 1 delegation", label) : t("{0}, {1} delegations", label, count),
  };
}

/** Characters of a title in a row. */
const MAX_TITLE = 24;
/** Characters of a title before the reason of a failure, which begins in the visible part of the row. */
const MIN_TITLE = 12;
/**
 * Characters that fit in a row of a view of the usual width. Its end is cut off, and a selected row also shows its
 * buttons: the title of a finished delegation leaves room for them and for the verdict.
 */
const MAX_ROW = 36;
const BUTTON = 4;
/** The words of the context for which `package.json` has a button in the row of a finished delegation. */
const WITH_BUTTON = new Set(["changes", "review", "done", "failure", "discarded"]);

interface RowFacts {
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Whether its folder has to be named: it is another window's, or one of several. */
  readonly namesFolder: boolean;
  /** Whether a reply to its agent has an effect. */
  readonly instructable: boolean;
  /** The title of its recipe, with which the titles of delegations begin. */
  readonly recipe: string;
}

/** The names of the programs that worked on a delegation, as its errors call them. */
function programs({ delegator, attempts }: Delegation): readonly (string | undefined)[] {
  return [delegator, ...attempts.flatMap((attempt) => [attempt.delegator, attempt.tool])];
}

function delegationRow(
  id: string,
  delegation: Delegation,
  { now, namesFolder, instructable, recipe }: RowFacts,
): TreeRow {
  const live = isLive(delegation);
  const toReview = isToReview(delegation);
  const failure = isFailure(delegation);
  const reason = failure && delegation.error ? failureFacts(delegation.error, programs(delegation)) : [];
  const doing = live ? doingNow(delegation) : [];
  const time = duration(elapsed(delegation, now));
  const who = delegation.delegator;
  const changes = toReview ? [changesText(delegation)] : [];
  const conflict = toReview && (delegation.conflicts?.length ?? 0) > 0;
  const state = conflict ? t("Conflict") : stateName(delegation);
  const evidence = testedText(delegation);
  const age = relativeTime(delegation.finishedAt ?? delegation.startedAt, now);
  const amounts = [tokensText(delegation), costText(delegation)].filter((fact) => fact !== undefined);
  const place = namesFolder ? [folderName(delegation.workspace)] : [];
  // What the user has to do or to know comes first: a narrow view cuts off the end. The icon shows the state.
  const facts = live
    ? delegation.waitingFor || delegation.state === "queued"
      ? [...doing, time, who, ...amounts, ...place]
      : [who, time, ...doing, ...amounts, ...place]
    : failure || conflict
      ? [state, ...reason, who, ...changes, age, ...amounts, ...place]
      : [who, ...changes, evidence ?? state, ...amounts, age, ...place];
  const context = ["delegation"];
  if (delegation.state === "waiting") context.push("waiting");
  else if (live) context.push("running");
  else if (delegation.rescueRef !== undefined) context.push("discarded");
  else context.push(toReview ? "review" : "done");
  if (live && delegation.terminal) context.push("terminal");
  if (delegation.state === "checking" && delegation.head !== undefined) context.push("checking");
  if (!live && delegation.worktree !== undefined && delegation.rescueRef === undefined) context.push("tree");
  // A finished review can be reopened, and its accepts can be undone.
  if (!live && delegation.rescueRef === undefined && (delegation.result?.files.length ?? 0) > 0)
    context.push("changes");
  if (failure) context.push("failure");
  if (!instructable) context.push("noReply");
  if (instructable && canBeStrengthened(delegation)) context.push(isUntested(delegation) ? "untested" : "survivors");
  if (droppableTests(delegation).length > 0) context.push("idleTests");
  const open = { id: "understudy.delegations.open", title: t("Open Transcript"), arguments: [delegation.id] };
  const buttons = context.filter((word) => WITH_BUTTON.has(word)).length;
  const { title } = delegation;
  const subject = title.startsWith(`${recipe}: `) ? title.slice(recipe.length + 2) : title;
  const rest = MAX_ROW - buttons * BUTTON - (facts[0]?.length ?? 0);
  const room = live ? MAX_TITLE : Math.min(MAX_TITLE, reason.length > 0 ? MIN_TITLE : rest);
  return {
    id,
    label: shortenMiddle(subject, room),
    description: facts.join(" · "),
    tooltip: tooltip(delegation, now),
    icon: stateIcon(delegation),
    children: "none",
    context: context.join(" "),
    spoken: [
      delegation.title,
      ...(doing[0]?.startsWith(state) ? [] : [state]),
      ...(live ? [spokenDuration(elapsed(delegation, now)), ...doing, who] : []),
      ...(delegation.error && reason.length > 0 ? [wholeReason(delegation.error)] : []),
      ...(live ? [] : [...changes, ...(evidence === undefined ? [] : [evidence]), age, who]),
      ...amounts,
      ...place,
    ].join(", "),
    command: toReview ? { ...open, id: "understudy.review.open", title: t("Review") } : open,
  };
}

/** Nothing is left out of what a screen reader reads, except the lines of a program before its last. */
function wholeReason({ message }: NonNullable<Delegation["error"]>): string {
  return oneLine(shortErrorText({ message }).replace(/\.$/u, ""), Infinity);
}

/** What a running delegation asks or does; empty if nothing is known. */
function doingNow(delegation: Delegation): string[] {
  const { state, waitingFor, activity } = delegation;
  if (waitingFor) return [oneLine(waitingFor.title, 60)];
  return state !== "running" || activity ? [oneLine(activityText(delegation), 60)] : [];
}

function tooltip(delegation: Delegation, now: number): string {
  const lines = [`**${escapeMarkdown(delegation.title)}**`, ""];
  const fact = (name: string, value: string | undefined): void => {
    if (value) lines.push(`- ${name}: ${escapeMarkdown(value)}`);
  };
  if (delegation.verdict && !isLive(delegation)) {
    const { verdict, error } = delegation;
    const said = error ? `${verdictName(verdict)}: ${errorText(error)}` : `${verdictSummary(delegation)}.`;
    lines.push(escapeMarkdown(said), "");
  } else {
    fact(t("Status"), activityText(delegation));
  }
  if (delegation.waitingFor) {
    fact(t("Question"), `${delegation.waitingFor.title}: ${oneLine(questionText(delegation.waitingFor), 200)}`);
  }
  const tries = delegation.attempts.map(({ delegator }) => delegator);
  fact(t("Delegator"), tries.length > 1 ? tries.join(" → ") : delegation.delegator);
  for (const { delegator, failure } of delegation.attempts) {
    if (tries.length > 1 && failure) fact(t("{0} failed", delegator), oneLine(errorText(failure), 200));
  }
  fact(t("Recipe"), delegation.recipe);
  fact(t("Duration"), duration(elapsed(delegation, now)));
  fact(t("Tokens"), usageText(delegation));
  const spent = costText(delegation) ?? (delegation.costUsd === undefined ? undefined : "$0");
  const origin = costOrigin(delegation);
  const unknown = delegation.usage.inputTokens > 0 ? t("unknown") : undefined;
  fact(t("Cost"), spent !== undefined && origin !== undefined ? `${spent} (${origin})` : (spent ?? unknown));
  const outdated = delegation.reservations.includes("checks_outdated");
  for (const check of delegation.checks) {
    fact(check.name, outdated ? t("{0}, before your edits", checkText(check)) : checkText(check));
  }
  if (delegation.review.accepted + delegation.review.rejected + delegation.review.pending > 0) {
    const { pending, accepted, rejected } = delegation.review;
    fact(t("Changes"), t("{0} pending, {1} accepted, {2} rejected", pending, accepted, rejected));
  }
  fact(t("Folder"), delegation.workspace);
  return lines.join("\n");
}

function usageText({ usage }: Delegation): string | undefined {
  if (usage.inputTokens + usage.outputTokens === 0) return undefined;
  return t("{0} input, {1} output", usage.inputTokens.toLocaleString(), usage.outputTokens.toLocaleString());
}

function folderName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The status of a delegation in one line, for quick picks. */
export function statusLine(delegation: Delegation): string {
  if (delegation.waitingFor) return oneLine(delegation.waitingFor.title, 80);
  if (isLive(delegation)) return delegation.activity ?? stateName(delegation);
  return delegation.verdict ? verdictName(delegation.verdict) : stateName(delegation);
}
