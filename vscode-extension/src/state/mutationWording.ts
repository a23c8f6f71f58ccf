/** What mutation testing showed, as text. */

import { t } from "../base/l10n.ts";
import type { JudgedMutant, MutationResult } from "../protocol.ts";
import { displayPath } from "./formatting.ts";

/** One line: how many small changes of the code the tests noticed. */
export function noticedChanges(result: MutationResult): string {
  const { scope = "files", killed, viable = 0, executed = 0, total = 0 } = result;
  const files = scope === "files";
  if (total === 0)
    return files ? t("The code under test has nothing to change.") : t("The changed code has nothing to change.");
  if (executed === 0)
    return files ? t("The new tests execute none of the code under test.") : t("No test executes the changed code.");
  if (viable === 0) return t("No small change of the code was judged.");
  const share = killed / viable;
  if (!files) return t("Tests notice {0} of {1} small changes of the changed code.", killed, viable);
  return t(
    "The new tests notice {0} of {1} small changes on lines that they execute, about {2} % of the code under test.",
    killed,
    viable,
    Math.round((100 * share * executed) / total),
  );
}

/** The same as a few words; nothing if nothing was judged. */
export function noticedShort({ killed, viable = 0 }: MutationResult): string | undefined {
  return viable > 0 ? t("{0} of {1} small changes noticed", killed, viable) : undefined;
}

/** The changes that no test noticed. */
export function survivors(result: MutationResult): readonly JudgedMutant[] {
  return (result.mutants ?? []).filter(({ status }) => status === "Survived");
}

/** Where a change is. */
export function mutantPlace({ path, line, function: name }: JudgedMutant): string {
  return name === "" ? `${displayPath(path)}:${line}` : t("{0} in {1}", `${displayPath(path)}:${line}`, name);
}

/** A change as a small diff. */
export function mutantDiff({ before, after }: JudgedMutant): readonly string[] {
  return [...before.split("\n").map((line) => `- ${line}`), ...after.split("\n").map((line) => `+ ${line}`)];
}
