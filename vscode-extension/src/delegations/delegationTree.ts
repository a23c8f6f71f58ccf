/**
 * The Delegations view: now (what needs the user first), to review, done, and delegations of other folders. Delegations
 * that were started together are one row there, with its members below it; the rounds of one task are the row of the
 * newest, with the earlier ones below it. Rows are created when they are drawn, long groups page by page. Times are
 * updated only while the view is visible.
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
  countText,
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
  timeOfDay,
  tokensText,
} from "../state/formatting.ts";
import type { Delegation } from "../protocol.ts";
import { delegationIdOf, delegationRowId } from "../state/delegationUris.ts";
import { takesInstructions } from "../state/instructions.ts";
import { questionText } from "../state/questions.ts";
import { remedyOf } from "../state/remedies.ts";
import { batchesOf, batchOf, batchRow, batchRowId } from "./batchRows.ts";
import { roundsOf } from "./rounds.ts";

export const DELEGATIONS_VIEW = "understudy.delegations";

/** Number of rows that are shown of a group at first, and that each “Show more” adds. */
export const GROUP_PAGE_SIZE = 50;

const GROUP = "group:";
const MORE = "more:";
const GROUPS = ["now", "review", "done", "elsewhere"] as const;
export type Group = (typeof GROUPS)[number];
/** What a delegation is to the user, the most urgent first. */
const PLACES = ["attention", "running", "review", "done", "elsewhere"] as const;
type Place = (typeof PLACES)[number];

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
  readonly #limits = Object.fromEntries(GROUPS.map((group) => [group, GROUP_PAGE_SIZE])) as Record<Group, number>;
  /** The last drawn rows by ID, so that unchanged rows are not redrawn. */
  readonly #drawn = new Map<string, string>();
  /** What was below each group after the last change: the store itself has only the new state. */
  #shownPlaces: ReadonlyMap<Group, string>;
  /** The number of delegations in each place; undefined: to be counted again. */
  #counts: Map<Place, number> | undefined;
  /** The IDs of rows directly below a group, in order. */
  #entries = new Map<Group, readonly string[]>();
  #batches = new Map<string, readonly Delegation[]>();
  /** As `roundsOf` returns them. */
  #rounds = new Map<string, readonly Delegation[]>();
  /** The rows below one that is not a group: members of a batch in their order, earlier rounds newest first. */
  #below = new Map<string, readonly string[]>();
  /** The row above each other one that is not a group. */
  #above = new Map<string, string>();
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
    this.#shownPlaces = this.#places();
    this.#subscription = store.onDidChange((change) => this.#onChange(change));
  }

  /** Number of delegations in a place. */
  count(place: Place): number {
    return this.#placed().get(place) ?? 0;
  }

  children(id?: string): readonly string[] {
    this.#placed();
    if (id === undefined) {
      return GROUPS.filter((group) => (this.#entries.get(group)?.length ?? 0) > 0).map((group) => GROUP + group);
    }
    const group = groupOf(id);
    if (group === undefined) return this.#below.get(id) ?? [];
    const all = this.#entries.get(group) ?? [];
    const most = this.#limits[group];
    const ids = all.slice(0, most);
    const showMore = all.length > most || (group === "done" && this.#store.hasMore);
    return showMore ? [...ids, MORE + group] : ids;
  }

  parent(id: string): string | undefined {
    if (id.startsWith(MORE)) return GROUP + id.slice(MORE.length);
    this.#placed();
    return this.#above.get(id);
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
    this.#placed();
    const group = groupOf(id);
    if (group !== undefined)
      return groupRow(id, group, this.#size(group), group === "now" ? this.count("attention") : 0);
    const batch = batchOf(id);
    if (batch !== undefined) {
      const members = this.#batches.get(batch);
      return members && batchRow(batch, members);
    }
    const name = delegationIdOf(id);
    const delegation = name === undefined ? undefined : this.#store.delegation(name);
    if (!delegation) return undefined;
    const rounds = this.#rounds.get(delegation.id) ?? [delegation];
    return delegationRow(id, delegation, {
      rounds,
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

  #placed(): Map<Place, number> {
    if (this.#counts) return this.#counts;
    const counts = new Map<Place, number>();
    const entries = new Map<Place, string[]>(PLACES.map((place) => [place, []]));
    this.#rounds = roundsOf(this.#store.delegations);
    const rows = this.#store.delegations.filter(({ id }) => (this.#rounds.get(id)?.at(-1)?.id ?? id) === id);
    this.#batches = batchesOf(rows);
    this.#below = new Map();
    this.#above = new Map();
    const putBelow = (row: string, below: readonly Delegation[]): void => {
      const ids = below.map(({ id }) => delegationRowId(id));
      this.#below.set(row, ids);
      for (const id of ids) this.#above.set(id, row);
    };
    for (const { id } of rows) {
      const earlier = this.#rounds.get(id)?.slice(0, -1).reverse();
      if (earlier) putBelow(delegationRowId(id), earlier);
    }
    for (const [id, members] of this.#batches) putBelow(batchRowId(id), members);
    for (const delegation of this.#store.delegations) {
      const place = this.#placeOf(delegation);
      counts.set(place, (counts.get(place) ?? 0) + 1);
    }
    for (const delegation of rows) {
      const own = delegationRowId(delegation.id);
      const row = this.#above.get(own) ?? own;
      if (this.#above.has(row)) continue;
      // Where a row is depends on what is below it, too: on what needs the user most.
      const members = this.#batches.get(batchOf(row) ?? "") ?? [delegation];
      const all = members.flatMap((member) => this.#rounds.get(member.id) ?? [member]);
      const found = new Set(all.map((member) => this.#placeOf(member)));
      const place = PLACES.find((one) => found.has(one)) ?? "done";
      this.#above.set(row, GROUP + groupFor(place));
      entries.get(place)?.push(row);
    }
    this.#entries = new Map(
      GROUPS.map((group) => [
        group,
        PLACES.flatMap((place) => (groupFor(place) === group ? (entries.get(place) ?? []) : [])),
      ]),
    );
    return (this.#counts = counts);
  }

  /** The number of delegations in the rows of a group. */
  #size(group: Group): number {
    const sizes = (this.#entries.get(group) ?? []).map((id) => this.#batches.get(batchOf(id) ?? "")?.length ?? 1);
    return sizes.reduce((all, size) => all + size, 0);
  }

  #placeOf(delegation: Delegation): Place {
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
    if (change.delegations.size > 0 || change.delegationList) this.#counts = undefined;
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

  /** Redraw the rows of changed delegations, and those above them. */
  #redrawChanged({ delegations }: Change): void {
    if (!this.#visible) return;
    const ids = new Set([...delegations].map(delegationRowId));
    for (const id of ids) {
      const above = this.parent(id);
      if (above !== undefined) ids.add(above);
    }
    this.#redraw([...ids]);
  }

  /** What is below each group that is shown, in order, with what is below that. */
  #places(): Map<Group, string> {
    this.#placed();
    const withRest = (id: string): unknown => {
      const below = this.#below.get(id);
      return below ? [id, below.map(withRest)] : id;
    };
    const filled = [...this.#entries].filter(([, ids]) => ids.length > 0);
    return new Map(
      filled.map(([group, ids]) => [
        group,
        JSON.stringify([ids.map(withRest), group === "done" && this.#store.hasMore]),
      ]),
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

function groupFor(place: Place): Group {
  return place === "attention" || place === "running" ? "now" : place;
}

function groupRow(id: string, group: Group, count: number, attention: number): TreeRow {
  const label = {
    now: t("Now"),
    review: t("To Review"),
    done: t("Done"),
    elsewhere: t("In Other Folders"),
  }[group];
  const quiet = group === "done" || group === "elsewhere";
  const urgent = attention > 0 ? [t("{0} needing attention", attention)] : [];
  return {
    id,
    label,
    description: [String(count), ...urgent].join(" · "),
    children: quiet ? "collapsed" : "expanded",
    context: attention > 0 ? "group attention" : "group",
    spoken: [count === 1 ? t("{0}, 1 delegation", label) : t("{0}, {1} delegations", label, count), ...urgent].join(
      ", ",
    ),
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
const WITH_BUTTON = new Set(["changes", "remedy", "review", "done", "failure", "discarded"]);

interface RowFacts {
  /** All rounds of its task, oldest first. */
  readonly rounds: readonly Delegation[];
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
  { rounds, now, namesFolder, instructable, recipe }: RowFacts,
): TreeRow {
  const round = rounds.findIndex((one) => one.id === delegation.id) + 1;
  const earlier = round === rounds.length ? rounds.slice(0, -1) : [];
  const live = isLive(delegation);
  const toReview = isToReview(delegation);
  const failure = isFailure(delegation);
  const reason = failure && delegation.error ? failureFacts(delegation.error, programs(delegation)) : [];
  const doing = live ? doingNow(delegation) : [];
  const time = duration(elapsed(delegation, now));
  const isEarlier = round < rounds.length;
  const who = [...(round > 1 && !isEarlier ? [t("round {0}", round)] : []), delegation.delegator];
  const changes = toReview ? [changesText(delegation)] : [];
  const conflict = toReview && (delegation.conflicts?.length ?? 0) > 0;
  const state = conflict ? t("Conflict") : stateName(delegation);
  const evidence = testedText(delegation);
  const age = relativeTime(delegation.finishedAt ?? delegation.startedAt, now);
  const amounts = [costText(delegation) ?? tokensText(delegation)].filter((fact) => fact !== undefined);
  const place = namesFolder ? [folderName(delegation.workspace)] : [];
  // What the user has to do or to know comes first: a narrow view cuts off the end. The icon shows the state.
  const facts = live
    ? delegation.waitingFor || delegation.count || delegation.state === "queued"
      ? [...doing, time, ...who, ...amounts, ...place]
      : [...who, time, ...doing, ...amounts, ...place]
    : failure || conflict
      ? [state, ...reason, ...who, ...changes, ...amounts, age, ...place]
      : [...who, ...changes, evidence ?? state, ...amounts, age, ...place];
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
  if (remedyOf(delegation)) context.push("remedy");
  if (!instructable) context.push("noReply");
  if (instructable && canBeStrengthened(delegation)) context.push(isUntested(delegation) ? "untested" : "survivors");
  if (droppableTests(delegation).length > 0) context.push("idleTests");
  const open = { id: "understudy.delegations.open", title: t("Open Transcript"), arguments: [delegation.id] };
  const buttons = context.filter((word) => WITH_BUTTON.has(word)).length;
  // A round has the title of the task, not of what was asked for in it.
  const title = rounds[0]?.title ?? delegation.title;
  const subject = title.startsWith(`${recipe}: `) ? title.slice(recipe.length + 2) : title;
  const rest = MAX_ROW - buttons * BUTTON - (facts[0]?.length ?? 0);
  const room = live ? MAX_TITLE : Math.min(MAX_TITLE, reason.length > 0 ? MIN_TITLE : rest);
  return {
    id,
    label: isEarlier ? t("Round {0}", round) : shortenMiddle(subject, room),
    description: facts.join(" · "),
    tooltip: tooltip(delegation, now),
    icon: stateIcon(delegation),
    children:
      earlier.length === 0 ? "none" : earlier.some((one) => isLive(one) || isToReview(one)) ? "expanded" : "collapsed",
    context: context.join(" "),
    spoken: [
      ...(isEarlier ? [t("Round {0}", round), title] : [title]),
      ...(doing[0]?.startsWith(state) ? [] : [state]),
      ...(live ? [spokenDuration(elapsed(delegation, now)), ...doing, ...who] : []),
      ...(delegation.error && reason.length > 0 ? [wholeReason(delegation.error)] : []),
      ...(live ? [] : [...changes, ...(evidence === undefined ? [] : [evidence]), age, ...who]),
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
  if (waitingFor) {
    const until = waitingFor.deadline === undefined ? [] : [t("until {0}", timeOfDay(waitingFor.deadline))];
    return [oneLine(waitingFor.title, 60), ...until];
  }
  if (delegation.count) return [countText(delegation.count)]; // the icon shows that it is checked
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
