/** The view of a review: what the result came to and why, above every file and hunk and how each was decided. */

import { Emitter, type Disposable } from "../base/emitter.ts";
import { t } from "../base/l10n.ts";
import type { Row, Rows } from "../host/host.ts";
import { reservationMeaning } from "../model/words.ts";
import type { Delegation, FileDiff, Hunk } from "../protocol.ts";
import { fileRow, firstLine, hunkRow, named, shownPath, type Spot } from "./hunks.ts";
import type { Result } from "./desk.ts";
import { RESULT, uriOf } from "./places.ts";
import { checkFacts, checkWord, fileWord, sentence, stateWord, verdictWord, wholeFile } from "./words.ts";

export const REVIEW_VIEW = "understudy.review";
export const SHOW = "understudy.review.show";
export const EVIDENCE_COMMAND = "understudy.review.evidence";

export interface ReviewState {
  readonly current: Pick<Result, "id" | "files" | "file" | "spot" | "known" | "mode"> | undefined;
  delegation(id: string): Delegation | undefined;
}

export class ReviewRows implements Rows, Disposable {
  readonly #state: ReviewState;
  readonly #changed = new Emitter<readonly string[] | undefined>();
  readonly onDidChange = this.#changed.signal;

  constructor(state: ReviewState) {
    this.#state = state;
  }

  /** Draw it anew. */
  refresh(): void {
    this.#changed.fire(undefined);
  }

  children(id?: string): readonly string[] {
    const { current } = this.#state;
    if (!current) return [];
    if (id === undefined)
      return [`verdict:${current.id}`, ...current.files.map(({ path }) => fileRow(current.id, path))];
    if (id === `verdict:${current.id}`) return this.#grounds(current.id);
    const place = named(id);
    if (place?.kind !== "file") return [];
    return current.file(place.path)?.hunks.map((hunk) => hunkRow(current.id, place.path, hunk.id)) ?? [];
  }

  parent(id: string): string | undefined {
    const place = named(id);
    if (place) return place.kind === "hunk" ? fileRow(place.id, place.path) : undefined;
    const [, delegation] = /^(?:check|reservation|error|confined):([^:]*)/u.exec(id) ?? [];
    return delegation === undefined ? undefined : `verdict:${delegation}`;
  }

  row(id: string): Row | undefined {
    const { current } = this.#state;
    if (!current) return undefined;
    const place = named(id);
    if (place?.id !== undefined && place.id !== current.id) return undefined;
    if (place?.kind === "file") {
      const file = current.file(place.path);
      return file && fileRowOf(id, file, current);
    }
    if (place) {
      const spot = current.spot(place.path, place.hunk);
      return spot && hunkRowOf(id, spot, current);
    }
    const delegation = this.#state.delegation(current.id);
    return delegation && ground(id, delegation, this.#counts());
  }

  dispose(): void {
    this.#changed.dispose();
  }

  #grounds(id: string): readonly string[] {
    const delegation = this.#state.delegation(id);
    if (!delegation) return [];
    return [
      ...(delegation.error ? [`error:${id}`] : []),
      ...delegation.reservations.map((name) => `reservation:${id}:${name}`),
      ...delegation.checks.map(({ name }) => `check:${id}:${name}`),
      ...(delegation.confined ? [] : [`confined:${id}`]),
    ];
  }

  #counts(): { undecided: number; all: number } {
    const hunks = this.#state.current?.files.flatMap((file) => file.hunks) ?? [];
    return { undecided: hunks.filter(({ state }) => state === "pending").length, all: hunks.length };
  }
}

function ground(id: string, delegation: Delegation, counts: { undecided: number; all: number }): Row | undefined {
  const command = { id: EVIDENCE_COMMAND, title: t("Show the Evidence"), arguments: [delegation.id] };
  const rest = { children: "none", command } as const;
  if (id === `verdict:${delegation.id}`) {
    const word = verdictWord(delegation);
    return {
      ...rest,
      id,
      label: word.text,
      description: delegation.title,
      icon: iconOf(word),
      children: "expanded",
      context: counts.undecided > 0 ? "verdict undecided" : "verdict",
      tooltip: t("Show everything that is known about this result"),
      spoken: t("{0}, {1}, {2} of {3} undecided", word.text, delegation.title, counts.undecided, counts.all),
    };
  }
  if (id === `error:${delegation.id}` && delegation.error) {
    const { message, hint = "" } = delegation.error;
    const icon = { id: "error", color: "list.errorForeground" };
    return { ...rest, id, label: message, description: hint, icon, context: "error", spoken: `${message} ${hint}` };
  }
  if (id === `confined:${delegation.id}`) {
    const label = t("Not confined");
    const description = t("it could do what you can");
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
    const label = sentence(reservationMeaning(reservation)).replace(/\.$/u, "");
    const icon = { id: "warning", color: "list.warningForeground" };
    return {
      ...rest,
      id,
      label,
      tooltip: `${label}.`,
      icon,
      context: "reservation",
      spoken: t("Reservation: {0}", label),
    };
  }
  const check = delegation.checks.find(({ name }) => id === `check:${delegation.id}:${name}`);
  if (!check) return undefined;
  const word = checkWord(check, delegation);
  const facts = [word.text, ...checkFacts(check)].join(" · ");
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

function fileRowOf(id: string, file: FileDiff, current: Pick<Result, "mode">): Row {
  const path = shownPath(file.path);
  const slash = path.lastIndexOf("/");
  const label = path.slice(slash + 1);
  const undecided = file.hunks.filter(({ state }) => state === "pending").length;
  const facts = [
    slash < 0 ? "" : path.slice(0, slash),
    fileWord(file, current.mode(file.path, "result")),
    undecided > 0 && file.flagged !== undefined ? file.flagged : "",
    undecided > 0 ? t("{0} undecided", undecided) : t("decided"),
  ].filter((fact) => fact !== "");
  const place = named(id);
  return {
    id,
    label,
    description: facts.join(" · "),
    tooltip: path.replace(/[\\`*_{}[\]<>()#+\-!|~$&]/gu, String.raw`\$&`),
    icon: { id: "file" }, // the editor's own icon for such a file
    resource: uriOf(RESULT, place?.id ?? "", path),
    children: "expanded",
    context: undecided > 0 ? "reviewFile pending" : "reviewFile",
    command: { id: SHOW, title: t("Show the Change"), arguments: [id] },
    spoken: [label, ...facts].join(", "),
  };
}

function hunkRowOf(id: string, spot: Spot, current: Pick<Result, "known" | "mode">): Row {
  const { file, hunk } = spot;
  const word = stateWord(hunk);
  const said = firstLine(hunk, current.known(file.path, "base"), current.known(file.path, "result"));
  const where = file.status === "deleted" ? "" : whereOf(hunk);
  const size = [hunk.newLines > 0 ? `+${hunk.newLines}` : "", hunk.oldLines > 0 ? `−${hunk.oldLines}` : ""]
    .join(" ")
    .trim();
  const state = hunk.reason && hunk.state === "rejected" ? `${word.text}: ${hunk.reason}` : word.text;
  const edited = hunk.edited ? t("edited by you") : "";
  const context = ["hunk", hunk.state];
  if (hunk.conflict && hunk.state === "pending") context.push("conflict");
  const label = said || where || wholeFile(file, current.mode(file.path, "result"));
  const facts = [label === where ? "" : where, size, edited, hunk.state === "pending" && !hunk.conflict ? "" : state];
  return {
    id,
    label,
    description: facts.filter((fact) => fact !== "").join(" · "),
    icon: iconOf(word),
    children: "none",
    context: context.join(" "),
    command: { id: SHOW, title: t("Show the Change"), arguments: [id] },
    spoken: [state, label, where, size, edited].filter((fact) => fact !== "").join(", "),
  };
}

function whereOf(hunk: Hunk): string {
  if (hunk.newLines > 0) return t("line {0}", hunk.newStart);
  if (hunk.oldLines === 0) return "";
  return hunk.newStart > 0 ? t("after line {0}", hunk.newStart) : t("at the top");
}

function iconOf({ icon, color }: { icon: string; color?: string }): { id: string; color?: string } {
  return color === undefined ? { id: icon } : { id: icon, color };
}
