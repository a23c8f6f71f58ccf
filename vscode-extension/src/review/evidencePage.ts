import { t } from "../base/l10n.ts";
import { escapeMarkdown } from "../base/markdown.ts";
import { RESERVATION_REASONS, VERDICT_MEANINGS, type Delegation, type MutationResult } from "../protocol.ts";
import { mutantDiff, mutantPlace, noticedChanges, survivors } from "../state/mutationWording.ts";
import { changedTest, earlierTests, stateName } from "../state/wording.ts";
import { capitalizedSentence, checkLabel, checkFacts } from "./reviewWording.ts";

/** The evidence document: everything known about a result as Markdown. Text of agents and tools is quoted. */
export function evidence(delegation: Delegation): string {
  const out = [`# ${stateName(delegation)}: ${inline(delegation.title)}`, ""];
  if (delegation.verdict) out.push(capitalizedSentence(VERDICT_MEANINGS[delegation.verdict]), "");
  if (delegation.error) out.push(`**${inline(delegation.error.message)}** ${inline(delegation.error.hint ?? "")}`, "");
  if (delegation.reservations.length > 0) {
    out.push(`## ${t("Why it is not verified")}`, "");
    for (const one of delegation.reservations) out.push(`- ${capitalizedSentence(RESERVATION_REASONS[one].reason)}`);
    out.push("");
  }
  out.push(`## ${t("Checks")}`, "");
  const again = delegation.result !== undefined && delegation.state === "checking";
  if (delegation.checks.length === 0) out.push(again ? t("The checks are running.") : t("No check ran."), "");
  else if (again)
    out.push(`**${t("The checks are running again. The results below are from the previous run.")}**`, "");
  for (const check of delegation.checks) {
    out.push(`### ${inline(check.name)}: ${checkLabel(check, delegation).text}`, "", checkFacts(check).join(" · "), "");
    out.push(fenced(check.argv.map(shellQuoted).join(" ")), "");
    if (check.mutation) out.push(...mutation(check.mutation));
    if (check.base) {
      out.push(earlierTests(check.base), "");
      if (check.base.tests.length > 0) out.push(...check.base.tests.map((one) => `- ${inline(changedTest(one))}`), "");
      out.push(...named(t("For this comparison, these files were as in the base:"), check.base.restored));
    }
    out.push(...named(t("It loaded these files from your checkout:"), check.checkoutFiles));
    out.push(...named(t("These tests passed once and failed once:"), check.flakyTests));
    out.push(...named(t("These tracked files changed while it ran:"), check.changedFiles));
    if (check.outputTail.trim() !== "") out.push(t("End of its output:"), "", fenced(check.outputTail.trimEnd()), "");
  }
  const { summary, text } = delegation.result ?? {};
  if (summary ?? text) out.push(`## ${t("Agent's summary")}`, "", fenced((summary ?? text ?? "").trim()), "");
  out.push(`## ${t("Attempts")}`, "");
  for (const attempt of delegation.attempts) {
    const facts = [attempt.delegator, attempt.tool, attempt.model].filter((fact) => fact);
    out.push(`${attempt.number}. ${facts.map((fact) => inline(fact ?? "")).join(" · ")}`);
  }
  if (delegation.sandbox) {
    const text = delegation.confined
      ? t("The agent ran in a sandbox.")
      : t("No sandbox: the agent had your permissions.");
    out.push("", text, "");
  }
  return out.join("\n");
}

/** What the tests noticed, what they missed, and which tests noticed nothing. */
function mutation(result: MutationResult): string[] {
  const out = [noticedChanges(result), ""];
  if (result.unfinished !== undefined) out.push(inline(result.unfinished), "");
  const missed = survivors(result);
  if (missed.length > 0) out.push(t("No test noticed these changes. Some may make no difference:"), "");
  for (const one of missed)
    out.push(`- ${inline(mutantPlace(one))}`, "", fenced(mutantDiff(one).join("\n"), "diff"), "");
  out.push(...named(t("These new tests noticed nothing, and can be left out:"), result.idle));
  out.push(...named(t("These tests failed although nothing that runs had changed:"), result.unreliable));
  return out;
}

/** A sentence and a list of names; nothing without names. */
function named(sentence: string, names: readonly string[] | undefined): string[] {
  return names?.length ? [sentence, "", ...names.map((name) => `- ${inline(name)}`), ""] : [];
}

/** Escape a text for Markdown, on one line. */
function inline(text: string): string {
  return escapeMarkdown(text.replace(/\s+/gu, " "));
}

/** Put text into a fence that it cannot close. */
export function fenced(text: string, language = "text"): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/gu)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

export function shellQuoted(word: string): string {
  return /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
