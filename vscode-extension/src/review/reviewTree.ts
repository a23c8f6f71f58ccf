/** The Review view: the verdict with its checks and reservations, then all files and hunks with their state. */

import { canBeStrengthened, droppableTests, isUntested } from "../state/mutationWording.ts";
import { Emitter, type Disposable } from "../base/events.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import { t } from "../base/l10n.ts";
import { editorHint } from "../sidecar/connection.ts";
import type { CommandLink, TreeRow, TreeDataProvider } from "../host/host.ts";
import { RESERVATION_REASONS, type Delegation, type FileDiff, type Hunk, type Reservation } from "../protocol.ts";
import { fileRow, firstLine, hunkRow, parseRowId, type HunkRef } from "./hunks.ts";
import { displayPath, oneLine } from "../state/formatting.ts";
import { remedyTitle } from "../state/remedies.ts";
import { factsOf } from "../state/wording.ts";
import type { OpenResult } from "./openResults.ts";
import { reviewUri, ROW } from "./reviewUris.ts";
import {
  checkFacts,
  checkLabel,
  fileChange,
  capitalized,
  capitalizedSentence,
  hunkLabel,
  hunkSize,
  rejectedBefore,
  spokenSize,
  untestedPlaces,
  verdictLabel,
  wholeFile,
} from "./reviewWording.ts";

export const REVIEW_VIEW = "understudy.review";
export const SHOW_COMMAND = "understudy.review.show";
export const EVIDENCE_COMMAND = "understudy.review.evidence";

export interface ReviewSource {
  readonly current:
    Pick<OpenResult, "id" | "files" | "edited" | "file" | "hunk" | "knownText" | "knownMode"> | undefined;
  delegation(id: string): Delegation | undefined;
  takesInstructions(delegation: Delegation): boolean;
}

export class ReviewTree implements TreeDataProvider, Disposable {
  readonly #state: ReviewSource;
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly onDidChange = this.#changed.subscribe;

  /** Every row as text, in order: ID → row. */
  #drawn: ReadonlyMap<string, string> = new Map();

  constructor(state: ReviewSource) {
    this.#state = state;
  }

  /**
   * Redraw the rows that changed, and everything if rows came, went or moved. The editor forgets a row that it draws
   * again until it has asked for it: an action that the user presses just then would be lost.
   */
  refresh(): void {
    const before = this.#drawn;
    const now = this.#rows();
    this.#drawn = now;
    if (JSON.stringify([...now.keys()]) !== JSON.stringify([...before.keys()])) {
      this.#changed.fire(undefined);
      return;
    }
    const different = [...now].filter(([id, row]) => before.get(id) !== row).map(([id]) => id);
    if (different.length > 0) this.#changed.fire(different);
  }

  children(id?: string): readonly string[] {
    const { current } = this.#state;
    if (!current) return [];
    if (id === undefined)
      return [`verdict:${current.id}`, ...shownPaths(current).map((path) => fileRow(current.id, path))];
    if (id === `verdict:${current.id}`) return this.#verdictChildren(current.id);
    const place = parseRowId(id);
    if (place?.kind !== "file") return [];
    return current.file(place.path)?.hunks.map((hunk) => hunkRow(current.id, place.path, hunk.id)) ?? [];
  }

  parent(id: string): string | undefined {
    const place = parseRowId(id);
    if (place) return place.kind === "hunk" ? fileRow(place.id, place.path) : undefined;
    const [, delegation] = /^(?:check|reservation|error|confined):([^:]*)/u.exec(id) ?? [];
    return delegation === undefined ? undefined : `verdict:${delegation}`;
  }

  row(id: string): TreeRow | undefined {
    const { current } = this.#state;
    if (!current) return undefined;
    const place = parseRowId(id);
    if (place?.id !== undefined && place.id !== current.id) return undefined;
    if (place?.kind === "file") {
      const file = current.file(place.path);
      return file ? fileRowOf(id, file, current) : restoredRow(id, place.path, current);
    }
    if (place) {
      const hunkRef = current.hunk(place.path, place.hunk);
      return hunkRef && hunkRowOf(id, hunkRef, current);
    }
    const delegation = this.#state.delegation(current.id);
    return delegation && verdictRow(id, delegation, this.#counts(), this.#state.takesInstructions(delegation));
  }

  dispose(): void {
    this.#changed.dispose();
  }

  #rows(id?: string, into = new Map<string, string>()): ReadonlyMap<string, string> {
    for (const child of this.children(id)) {
      into.set(child, JSON.stringify(this.row(child)));
      this.#rows(child, into);
    }
    return into;
  }

  #verdictChildren(id: string): readonly string[] {
    const delegation = this.#state.delegation(id);
    if (!delegation) return [];
    return [
      ...(delegation.error ? [`error:${id}`] : []),
      ...delegation.reservations.map((name) => `reservation:${id}:${name}`),
      ...delegation.checks.map(({ name }) => `check:${id}:${name}`),
      ...(delegation.confined || !delegation.sandbox ? [] : [`confined:${id}`]),
    ];
  }

  #counts(): { pending: number; all: number } {
    const hunks = this.#state.current?.files.flatMap((file) => file.hunks) ?? [];
    return { pending: hunks.filter(({ state }) => state === "pending").length, all: hunks.length };
  }
}

function verdictRow(
  id: string,
  delegation: Delegation,
  counts: { pending: number; all: number },
  instructable: boolean,
): TreeRow | undefined {
  const command = { id: EVIDENCE_COMMAND, title: t("Show Evidence"), arguments: [delegation.id] };
  const rest = { children: "none", command } as const;
  if (id === `verdict:${delegation.id}`) {
    const word = verdictLabel(delegation);
    return {
      ...rest,
      id,
      label: word.text,
      description: delegation.title,
      icon: iconOf(word),
      children: "expanded",
      context: [
        "verdict",
        ...(counts.pending > 0 ? ["hasPending"] : []),
        ...(instructable ? [] : ["noReply"]),
        ...(instructable && canBeStrengthened(delegation) ? [isUntested(delegation) ? "untested" : "survivors"] : []),
        ...(droppableTests(delegation).length > 0 ? ["idleTests"] : []),
      ].join(" "),
      tooltip: t("Show the evidence for this verdict"),
      spoken: t("{0}, {1}, {2} of {3} pending", word.text, delegation.title, counts.pending, counts.all),
    };
  }
  if (id === `error:${delegation.id}` && delegation.error) {
    const { message } = delegation.error;
    const hint = editorHint(delegation.error);
    const icon = { id: "error", color: "list.errorForeground" };
    return { ...rest, id, label: message, description: hint, icon, context: "error", spoken: `${message} ${hint}` };
  }
  if (id === `confined:${delegation.id}`) {
    const label = t("No sandbox");
    const description = t("the agent had your permissions");
    return {
      ...rest,
      id,
      label,
      description,
      icon: { id: "unlock" },
      context: "confined",
      spoken: `${label}, ${description}`,
    };
  }
  const reservation = delegation.reservations.find((name) => id === `reservation:${delegation.id}:${name}`);
  if (reservation) {
    const meaning = capitalizedSentence(RESERVATION_REASONS[reservation].reason);
    const all = factsOf(reservation, delegation.reservationFacts);
    // What it may be about is in the tooltip: in the row, it would push the facts out of the view.
    const [first = meaning, ...facts] = all;
    const label = first.replace(/\.$/u, "");
    const tooltip = [meaning, ...all.map(escapeMarkdown)].join("\n\n");
    const icon = { id: "warning", color: "list.warningForeground" };
    const asksForTests = reservation === "change_not_tested" && instructable && canBeStrengthened(delegation);
    const repair = repairOf(reservation, id, delegation);
    if (repair) {
      const { context, command } = repair;
      const description = command.title;
      const spoken = `${t("Reservation: {0}", label)}, ${description}`;
      return { ...rest, id, label, description, tooltip, icon, context, command, spoken };
    }
    return {
      ...rest,
      id,
      label,
      description: facts.join(" "),
      tooltip,
      icon,
      context: asksForTests ? "reservation untested" : "reservation",
      spoken: t("Reservation: {0}", [label, ...facts].join(". ")),
    };
  }
  const check = delegation.checks.find(({ name }) => id === `check:${delegation.id}:${name}`);
  if (!check) return undefined;
  const word = checkLabel(check, delegation);
  const facts = checkFacts(check, delegation).join(" · ");
  return {
    ...rest,
    id,
    label: check.name,
    description: facts,
    icon: iconOf(word),
    context: "check",
    spoken: `${check.name}, ${facts}`,
  };
}

/** What the row of a reservation does when it is clicked. */
function repairOf(
  name: Reservation,
  id: string,
  { reservationFacts = [] }: Delegation,
): { context: string; command: CommandLink } | undefined {
  const remedy = reservationFacts.find((fact) => fact.reservation === name && fact.remedy !== undefined)?.remedy;
  if (remedy) {
    const command = { id: "understudy.delegations.remedy", title: remedyTitle(remedy), arguments: [id] };
    return { context: "remedy", command };
  }
  if (name === "no_checks") {
    return { context: "noChecks", command: { id: "understudy.checks.add", title: t("Add Check…"), arguments: [id] } };
  }
  if (name !== "checks_outdated") return undefined;
  return { context: "checksOutdated", command: { id: "understudy.review.check", title: t("Run Checks Again") } };
}

/** The changed files, and those that an edit made equal to the base: the edit can be undone. */
function shownPaths({ files, edited }: Pick<OpenResult, "files" | "edited">): readonly string[] {
  const changed = files.map(({ path }) => path);
  return [...changed, ...edited.map(({ path }) => path).filter((path) => !changed.includes(path))];
}

function restoredRow(id: string, name: string, { edited }: Pick<OpenResult, "edited">): TreeRow | undefined {
  const file = edited.find(({ path }) => path === name);
  if (!file) return undefined;
  const path = displayPath(name);
  const [label, said] = [path.slice(path.lastIndexOf("/") + 1), t("no changes left after your edit")];
  return {
    id,
    label,
    description: said,
    tooltip: escapeMarkdown(path),
    icon: { id: "file" },
    resource: reviewUri(ROW, parseRowId(id)?.id ?? "", path),
    children: "none",
    context: file.undoable ? "reviewFile editable edited" : "reviewFile editable",
    spoken: `${label}, ${said}`,
  };
}

function fileRowOf(id: string, file: FileDiff, current: Pick<OpenResult, "knownMode" | "edited">): TreeRow {
  const path = displayPath(file.path);
  const slash = path.lastIndexOf("/");
  const label = path.slice(slash + 1);
  const pending = file.hunks.filter(({ state }) => state === "pending").length;
  const facts = [
    slash < 0 ? "" : path.slice(0, slash),
    fileChange(file, current.knownMode(file.path, "result")),
    pending > 0 && file.flagReason !== undefined ? file.flagReason : "",
    pending > 0 ? t("{0} pending", pending) : t("no pending changes"),
  ].filter((fact) => fact !== "");
  const place = parseRowId(id);
  const edited = current.edited.some((one) => one.path === file.path && one.undoable);
  const context = [
    "reviewFile",
    ...(pending > 0 ? ["pending"] : []),
    ...(file.hunks.some(({ state }) => state === "accepted" || state === "rejected") ? ["decided"] : []),
    ...(file.binary || file.status === "deleted" ? [] : ["editable"]),
    ...(edited ? ["edited"] : []),
  ];
  return {
    id,
    label,
    description: facts.join(" · "),
    tooltip: escapeMarkdown(path),
    icon: { id: "file" }, // the icon of the editor for this file type
    resource: reviewUri(ROW, place?.id ?? "", path),
    children: "expanded",
    context: context.join(" "),
    command: { id: SHOW_COMMAND, title: t("Show Change"), arguments: [id] },
    spoken: [label, ...facts].join(", "),
  };
}

/** Characters of the text of a change before its state, which a longer one would push out of a narrow view. */
const MAX_LABEL = 18;

function hunkRowOf(id: string, hunkRef: HunkRef, current: Pick<OpenResult, "knownText" | "knownMode">): TreeRow {
  const { file, hunk } = hunkRef;
  const word = hunkLabel(hunk);
  const said = firstLine(hunk, current.knownText(file.path, "base"), current.knownText(file.path, "result"));
  const where = file.status === "deleted" ? "" : lineText(hunk);
  const size = hunkSize(hunk);
  const before = hunk.state === "pending" ? rejectedBefore(hunk) : undefined;
  const again = before === undefined ? "" : t("rejected before");
  const state = hunk.reason && hunk.state === "rejected" ? `${word.text}: ${hunk.reason}` : word.text;
  const edited = hunk.edited ? t("edited by you") : "";
  const untested = hunk.state === "pending" ? untestedPlaces(hunk) : [];
  const tested = untested.length > 0 ? t("not tested") : "";
  const context = ["hunk", hunk.state];
  if (hunk.conflict && hunk.state === "pending") context.push("conflict");
  if (!file.binary && file.status !== "deleted") context.push("editable");
  const label = said || where || wholeFile(file, current.knownMode(file.path, "result"));
  const shown = context.includes("conflict") || hunk.state !== "pending" ? state : "";
  // The state comes first: a narrow view cuts off the end.
  const facts = [shown, again, tested, label === where ? "" : where, size, edited];
  const notes = [capitalized(before ?? ""), ...(tested === "" ? [] : [t("Not tested"), ...untested])];
  return {
    id,
    label: shown + again + tested === "" ? label : oneLine(label, MAX_LABEL),
    description: facts.filter((fact) => fact !== "").join(" · "),
    icon: iconOf(word),
    children: "none",
    context: context.join(" "),
    ...(again + tested === ""
      ? {}
      : {
          tooltip: notes
            .filter((note) => note !== "")
            .map(escapeMarkdown)
            .join("\n\n"),
        }),
    command: { id: SHOW_COMMAND, title: t("Show Change"), arguments: [id] },
    spoken: [state, before ?? "", tested, label, where, spokenSize(hunk), edited]
      .filter((fact) => fact !== "")
      .join(", "),
  };
}

function lineText(hunk: Hunk): string {
  if (hunk.newLines > 0) return t("line {0}", hunk.newStart);
  if (hunk.oldLines === 0) return "";
  return hunk.newStart > 0 ? t("after line {0}", hunk.newStart) : t("at the top");
}

function iconOf({ icon, color }: { icon: string; color?: string }): { id: string; color?: string } {
  return color === undefined ? { id: icon } : { id: icon, color };
}
