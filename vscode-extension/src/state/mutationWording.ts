/** What mutation testing showed, as text. */

import { t } from "../base/l10n.ts";
import type { Delegation, JudgedMutant, MutationResult, PlaceEvidence, PlacesJudgedEvent, Round } from "../protocol.ts";
import { displayPath } from "./formatting.ts";

const MOST_PLACES = 5;

/** One line: how many small changes of the code the tests noticed. */
export function noticedChanges(result: MutationResult): string {
  const { scope = "files", killed, viable = 0, executed = 0, total = 0 } = result;
  const files = scope === "files";
  if (total === 0)
    return files
      ? t("No small change is possible in the code under test.")
      : t("No small change is possible in the changed code.");
  if (executed === 0)
    return files ? t("The new tests execute none of the code under test.") : t("No test executes the changed code.");
  if (viable === 0) return t("No small change to the code was judged.");
  const noticed = files
    ? t("The new tests notice {0} of {1} small changes on lines that they execute.", killed, viable)
    : t("Tests notice {0} of {1} small changes on lines that they execute.", killed, viable);
  const unexecuted = total - executed;
  return unexecuted <= 0 ? noticed : `${noticed} ${unexecutedPlaces(result, unexecuted, total)}`;
}

function unexecutedPlaces({ unexecuted: places = [] }: MutationResult, count: number, total: number): string {
  const text =
    count === 1
      ? t("1 of {0} places is on a line that no test executes", total)
      : t("{0} of {1} places are on lines that no test executes", count, total);
  if (places.length === 0) return `${text}.`;
  const named = places.slice(0, MOST_PLACES).map(({ path, line }) => `${displayPath(path)}:${line}`);
  return `${text}: ${named.join(", ")}${places.length > MOST_PLACES ? "…" : "."}`;
}

/** The same as a few words; nothing if nothing was judged. */
export function noticedShort({ killed, viable = 0 }: MutationResult): string | undefined {
  return viable > 0 ? t("{0} of {1} small changes noticed", killed, viable) : undefined;
}

/** How many changed places have evidence; undefined if that is not known. */
export function testedPlaces({
  places = [],
  reservations,
}: Pick<Delegation, "places" | "reservations">): { readonly tested: number; readonly all: number } | undefined {
  if (places.length === 0 || reservations.includes("checks_outdated")) return undefined;
  return { tested: places.filter(({ evidence }) => SHOWN.has(evidence)).length, all: places.length };
}

/** How much of a result has evidence, as short text; nothing if that is not known. */
export function testedText({
  places = [],
  checks,
  reservations,
}: Pick<Delegation, "places" | "checks" | "reservations">): string | undefined {
  if (reservations.includes("checks_outdated")) return undefined;
  const ofNewTests = checks.flatMap(({ mutation }) => (mutation?.scope === "files" ? [mutation] : []));
  const [noticed] = ofNewTests.flatMap((mutation) => noticedShort(mutation) ?? []);
  const counts = noticed === undefined ? testedPlaces({ places, reservations }) : undefined;
  return counts ? t("{0} of {1} places tested", counts.tested, counts.all) : noticed;
}

/** The changes that no test noticed. */
export function survivors(result: MutationResult): readonly JudgedMutant[] {
  return (result.mutants ?? []).filter(({ status }) => status === "Survived");
}

/** Whether the agent can be asked for tests that notice more. */
export function canBeStrengthened(
  delegation: Pick<Delegation, "state" | "rescueRef" | "head" | "checks" | "places">,
): boolean {
  if (delegation.state !== "finished" || delegation.rescueRef !== undefined || delegation.head === undefined)
    return false;
  if (isUntested(delegation)) return true;
  const found = delegation.checks.flatMap(({ mutation }) => mutation ?? []);
  const noticed = new Set(found.flatMap(({ mutants = [] }) => mutants.filter(isNoticed).map(({ id }) => id)));
  if (found.some((one) => survivors(one).some(({ id }) => !noticed.has(id)))) return true;
  return found.length > 0 && found.every(({ total = 0, executed = 0 }) => total > 0 && executed === 0);
}

/** Whether there are changes that further tests could show. */
export function isUntested({ places }: Pick<Delegation, "places">): boolean {
  return places?.some(({ evidence }) => evidence === "unnoticed" || evidence === "unexecuted") ?? false;
}

/** The new tests that notice nothing, if checks of this very result showed that: they can be dropped. */
export function droppableTests({
  state,
  rescueRef,
  head,
  checks,
  reservations,
}: Pick<Delegation, "state" | "rescueRef" | "head" | "checks" | "reservations">): readonly string[] {
  if (state !== "finished" || rescueRef !== undefined || head === undefined) return [];
  if (reservations.includes("no_checks")) return []; // edited since
  return [...new Set(checks.flatMap(({ mutation }) => mutation?.idle ?? []))];
}

function isNoticed({ status }: JudgedMutant): boolean {
  return status === "Killed" || status === "Timeout";
}

/** How many small changes the tests of one round noticed. */
export function roundText({ number, killed, viable, kept, why = "" }: Round): string {
  const name = number === 0 ? t("First result") : t("Round {0}", number);
  const score = t("{0}: {1} of {2} small changes noticed", name, killed, viable);
  return kept ? score : t("{0}; not kept: {1}", score, why);
}

/** Evidence with which a changed place is tested. */
export const SHOWN: ReadonlySet<PlaceEvidence> = new Set(["noticed", "same", "new_test"]);

/** What was found about some changed places while checks run. */
export function placesText({ places, total }: Pick<PlacesJudgedEvent, "places" | "total">): string {
  const shown = places.filter(({ evidence }) => SHOWN.has(evidence)).length;
  const [first] = places;
  if (first === undefined || places.length > 1) {
    const not = places.length - shown;
    return t("{0} of {1} changed places judged: {2} tested, {3} not", places.length, total, shown, not);
  }
  const { path, line, function: name, why } = first;
  const file = line === 0 ? displayPath(path) : `${displayPath(path)}:${line}`;
  const where = name === "" ? file : t("{0} in {1}", file, name);
  return shown === 1 ? t("tested: {0} ({1})", where, why) : t("not tested: {0} ({1})", where, why);
}

/** Where a change is. */
export function mutantPlace({ path, line, function: name }: JudgedMutant): string {
  return name === "" ? `${displayPath(path)}:${line}` : t("{0} in {1}", `${displayPath(path)}:${line}`, name);
}

/** A change as a small diff. */
export function mutantDiff({ before, after }: JudgedMutant): readonly string[] {
  return [...before.split("\n").map((line) => `- ${line}`), ...after.split("\n").map((line) => `+ ${line}`)];
}
