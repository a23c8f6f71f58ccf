/** Verdict, checks and changes as labels with icons. */

import { t } from "../base/l10n.ts";
import { SHOWN, noticedShort } from "../state/mutationWording.ts";
import { reservationReason, stateIcon, stateName } from "../state/wording.ts";
import { type CheckResult, type Delegation, type FileDiff, type Hunk } from "../protocol.ts";
import { costText, displayPath, duration, elapsed, shortErrorText } from "../state/formatting.ts";

export interface Label {
  readonly text: string;
  readonly icon: string;
  readonly color?: string;
}

const GREEN = "charts.green";
const RED = "list.errorForeground";
const YELLOW = "list.warningForeground";

/** The verdict with its icon. */
export function verdictLabel(delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "review">): Label {
  const { id, color } = stateIcon(delegation);
  return { text: stateName(delegation), icon: id, ...(color === undefined ? {} : { color }) };
}

export function checkLabel(check: CheckResult, delegation: Pick<Delegation, "reservations">): Label {
  if (delegation.reservations.includes("checks_outdated")) {
    return { text: check.ok ? t("passed before your edits") : t("failed before your edits"), icon: "history" };
  }
  if (check.ok && check.flaky) return { text: t("flaky"), icon: "warning", color: YELLOW };
  if (check.ok) return { text: t("passed"), icon: "pass", color: GREEN };
  if (check.failsOnBase)
    return { text: t("failed, and also failed before the changes"), icon: "warning", color: YELLOW };
  return { text: t("failed"), icon: "error", color: RED };
}

/** The outcome of a check and its known numbers: `8 passed in 2.4 s`, `28 of 40 small changes noticed`. */
export function checkFacts(check: CheckResult, delegation: Pick<Delegation, "reservations">): readonly string[] {
  const counts: string[] = [];
  if (check.passed) counts.push(t("{0} passed", check.passed));
  if (check.failed) counts.push(t("{0} failed", check.failed));
  if (check.skipped) counts.push(t("{0} skipped", check.skipped));
  const word = checkLabel(check, delegation).text;
  const counted = counts.length > 0 && (word === t("passed") || word === t("failed"));
  const facts = counted ? [] : [word];
  const time = t("{0} s", check.seconds.toFixed(1));
  facts.push(counts.length > 0 ? t("{0} in {1}", counts.join(", "), time) : time);
  if (check.mutation) {
    const noticed = noticedShort(check.mutation);
    if (noticed !== undefined) facts.push(noticed);
  }
  if (check.exitCode !== undefined && check.exitCode !== 0) facts.push(t("exit code {0}", check.exitCode));
  if (!check.required) facts.push(t("not required"));
  const { judgingSeconds: all = 0 } = check;
  if (all > check.seconds) facts.push(t("judged in {0} s", all.toFixed(1)));
  return facts;
}

/** What the run failed of, failed checks, reservations and confirmed tests. */
export function verdictReasons(delegation: Delegation): readonly string[] {
  const against = delegation.reservations.map((reservation) =>
    reservationReason(reservation, delegation.reservationFacts),
  );
  const outdated = delegation.reservations.includes("checks_outdated");
  const failed = delegation.checks.filter(({ ok }) => !ok && !outdated).map(({ name }) => t("check {0} failed", name));
  const confirmed = delegation.confirmedTests
    ? [t("you confirmed the changed tests ({0})", delegation.confirmedTests)]
    : [];
  const error = delegation.error ? [shortErrorText({ message: delegation.error.message }).replace(/\.$/u, "")] : [];
  return [...error, ...failed, ...against, ...confirmed];
}

/** The verdict and its evidence as facts: `Verified`, `5 passed`, `10 of 13 small changes noticed`, `$0.01`, `1:44`. */
export function headline(delegation: Delegation, now: number): readonly string[] {
  const { checks, places = [], reservations } = delegation;
  const outdated = reservations.includes("checks_outdated");
  const shown = outdated ? [] : checks;
  const count = (of: (check: CheckResult) => number | undefined): number =>
    shown.reduce((sum, check) => sum + (of(check) ?? 0), 0);
  const [failed, passed] = [count((check) => check.failed), count((check) => check.passed)];
  const tested = places.filter(({ evidence }) => SHOWN.has(evidence)).length;
  return [
    stateName(delegation),
    ...(failed > 0 ? [t("{0} failed", failed)] : []),
    ...(passed > 0 ? [t("{0} passed", passed)] : []),
    ...(outdated || places.length === 0 ? [] : [t("{0} of {1} changed places tested", tested, places.length)]),
    ...(outdated ? [] : noticedFacts(delegation)),
    costText(delegation),
    duration(elapsed(delegation, now)),
  ].filter((fact) => fact !== undefined);
}

/** How many small changes of the code the tests of each check noticed. */
export function noticedFacts({ checks }: Pick<Delegation, "checks">): readonly string[] {
  return checks.flatMap(({ mutation }) => (mutation && noticedShort(mutation)) ?? []);
}

/** The sentence that explains the number of small changes; undefined if none was tried. */
export function noticedExplained({ checks }: Pick<Delegation, "checks">): string | undefined {
  const [result] = checks.flatMap(({ mutation }) => (mutation && (mutation.viable ?? 0) > 0 ? [mutation] : []));
  if (!result) return undefined;
  return t("Your code was broken on purpose {0} times; the tests noticed {1}.", result.viable ?? 0, result.killed);
}

/** The verdict with its reasons in one line, for lenses and lists. */
export function verdictLine(delegation: Delegation): string {
  const rest = verdictReasons(delegation);
  return rest.length > 0 ? `${stateName(delegation)}: ${rest.join("; ")}` : stateName(delegation);
}

export function hunkLabel(hunk: Hunk): Label {
  if (hunk.state === "accepted") return { text: decided(hunk, t("accepted")), icon: "pass-filled", color: GREEN };
  if (hunk.state === "rejected") return { text: decided(hunk, t("rejected")), icon: "circle-slash", color: RED };
  if (hunk.state === "superseded") return { text: t("sent back"), icon: "reply" };
  if (hunk.conflict) return { text: t("Conflict"), icon: "warning", color: YELLOW };
  return { text: t("pending"), icon: "circle-large-outline" };
}

/** A decision of the user in their editor needs no name. */
function decided({ by }: Hunk, word: string): string {
  const who = by === undefined || by === "lsp" ? undefined : decider(by);
  return who === undefined ? word : t("{0} {1}", word, who);
}

function decider(by: string): string | undefined {
  switch (by) {
    case "lsp":
      return t("by you");
    case "cli":
      return t("on the command line");
    case "http":
      return t("in the browser");
    case "acp":
    case "mcp":
      return t("in another editor");
    case "rpc":
      return t("by a program");
    default:
      return undefined;
  }
}

/** What was decided on a hunk, by whom and why: `Rejected by you: too long`. */
export function decisionWithReason(hunk: Hunk, all: readonly Hunk[]): string {
  const text = decisionText(hunk, all);
  return hunk.reason === undefined ? text : `${text}: ${hunk.reason}`;
}

/** The same without the reason: `Accepted by you, with 3 others`. `all`: the hunks of the result. */
export function decisionText(hunk: Hunk, all: readonly Hunk[]): string {
  const word = hunk.state === "accepted" ? t("Accepted") : capitalized(hunkLabel({ ...hunk, by: "lsp" }).text);
  const said = [word, hunk.by === undefined || hunk.state === "superseded" ? undefined : decider(hunk.by)]
    .filter((part) => part !== undefined)
    .join(" ");
  const token = hunk.undoToken;
  const together = token === undefined ? 0 : all.filter(({ undoToken }) => undoToken === token).length - 1;
  const others = together === 1 ? t("{0}, with 1 other", said) : t("{0}, with {1} others", said, together);
  return together > 0 ? others : said;
}

/** That the user rejected this change before, with the reason; undefined if they did not. */
export function rejectedBefore({ rejectedBefore: before }: Hunk): string | undefined {
  if (!before) return undefined;
  return before.reason === undefined
    ? t("you rejected this before")
    : t("you rejected this before: {0}", before.reason);
}

/** What is missing for the places of a hunk that no test notices, one text for each. */
export function untestedPlaces({ places = [] }: Pick<Hunk, "places">): readonly string[] {
  return places
    .filter(({ evidence }) => !SHOWN.has(evidence))
    .map(({ function: name, why }) => (name === "" ? why : `${name}: ${why}`));
}

const EXECUTABLE = "100755";
export const LINK = "120000";

/** What happened to a file besides its lines. `mode` is git's mode, if known. */
export function fileChange(file: FileDiff, mode: string | undefined): string {
  switch (file.status) {
    case "added":
      if (mode === LINK) return t("new link");
      return mode === EXECUTABLE ? t("new, executable") : t("new");
    case "deleted":
      return t("deleted");
    case "renamed":
      return t("was {0}", displayPath(file.from ?? ""));
    case "mode":
      return modeChange(mode);
    case "type":
      return mode === LINK ? t("now a link") : t("type changed");
    case "modified":
      if (mode === LINK) return t("link");
      return file.binary ? t("binary") : "";
  }
}

/** Label of a change without lines. */
export function wholeFile(file: FileDiff, mode: string | undefined): string {
  if (file.binary) return t("the whole file");
  switch (file.status) {
    case "renamed":
      return t("the name");
    case "added":
    case "deleted":
      return file.hunks.some(({ oldLines, newLines }) => oldLines + newLines > 0) ? t("the file") : t("an empty file");
    default:
      return modeChange(mode);
  }
}

function modeChange(mode: string | undefined): string {
  if (mode === undefined) return t("mode changed");
  return mode === EXECUTABLE ? t("now executable") : t("no longer executable");
}

export const capitalizedSentence = (words: string): string => `${capitalized(words)}.`;

export const capitalized = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

/** The same for a screen reader: `3 lines added, 1 line removed`. */
export function spokenSize({ newLines, oldLines }: Pick<Hunk, "newLines" | "oldLines">): string {
  return [
    newLines === 1 ? t("1 line added") : newLines > 1 ? t("{0} lines added", newLines) : "",
    oldLines === 1 ? t("1 line removed") : oldLines > 1 ? t("{0} lines removed", oldLines) : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** `+3 −1`; empty if no line changed. */
export function hunkSize({ newLines, oldLines }: Pick<Hunk, "newLines" | "oldLines">): string {
  return [newLines > 0 ? `+${newLines}` : "", oldLines > 0 ? `−${oldLines}` : ""]
    .filter((part) => part !== "")
    .join(" ");
}
