/** What a result came to, in words: the verdict, each reservation, each check, and the page that has all of it. */

import { t } from "../base/l10n.ts";
import { markdown } from "../base/markdown.ts";
import { reservationMeaning, stateIcon, stateName, verdictMeaning } from "../model/words.ts";
import type { CheckResult, Delegation, FileDiff, Hunk } from "../protocol.ts";
import { shownPath } from "./hunks.ts";

export interface Word {
  readonly text: string;
  readonly icon: string;
  readonly color?: string;
}

const GREEN = "charts.green";
const RED = "list.errorForeground";
const YELLOW = "list.warningForeground";

/** The verdict as a word with its icon, and what it means. */
export function verdictWord(delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "review">): Word {
  const { id, color } = stateIcon(delegation);
  return { text: stateName(delegation), icon: id, ...(color === undefined ? {} : { color }) };
}

/** A check that passed where no check counts judged the result as it was before it was edited. */
function isOld(check: CheckResult, delegation: Pick<Delegation, "reservations">): boolean {
  return check.ok && check.required && delegation.reservations.includes("no_checks");
}

export function checkWord(check: CheckResult, delegation: Pick<Delegation, "reservations">): Word {
  if (isOld(check, delegation)) return { text: t("passed before your edits"), icon: "history" };
  if (check.ok && check.flaky) return { text: t("flaky"), icon: "warning", color: YELLOW };
  if (check.ok) return { text: t("passed"), icon: "pass", color: GREEN };
  if (check.failsOnBase) return { text: t("failed, as before the work"), icon: "warning", color: YELLOW };
  return { text: t("failed"), icon: "error", color: RED };
}

/** What a check counted, as far as it is known. */
export function checkFacts(check: CheckResult): readonly string[] {
  const facts: string[] = [];
  if (check.passed !== undefined) facts.push(t("{0} passed", check.passed));
  if (check.failed) facts.push(t("{0} failed", check.failed));
  if (check.skipped) facts.push(t("{0} skipped", check.skipped));
  if (check.control) {
    const tests = check.control.bitten + check.control.survived.length;
    facts.push(t("{0} of {1} can fail", check.control.bitten, tests));
  }
  if (check.exitCode !== undefined && check.exitCode !== 0) facts.push(t("exit code {0}", check.exitCode));
  if (!check.required) facts.push(t("not required"));
  facts.push(t("{0} s", check.seconds.toFixed(1)));
  return facts;
}

/** The verdict with everything that stands against it, in one line: what a bar, a lens or a title has room for. */
export function verdictLine(delegation: Delegation): string {
  const against = delegation.reservations.map(reservationMeaning);
  const failed = delegation.checks.filter(({ ok }) => !ok).map(({ name }) => t("{0} failed", name));
  const rest = [...failed, ...against];
  return rest.length > 0 ? `${stateName(delegation)}: ${rest.join("; ")}` : stateName(delegation);
}

export function stateWord(hunk: Hunk): Word {
  if (hunk.state === "accepted") return { text: t("accepted"), icon: "pass-filled", color: GREEN };
  if (hunk.state === "rejected") return { text: t("rejected"), icon: "circle-slash", color: RED };
  if (hunk.state === "superseded") return { text: t("sent back"), icon: "reply" };
  if (hunk.conflict) return { text: t("does not merge"), icon: "warning", color: YELLOW };
  return { text: t("undecided"), icon: "circle-large-outline" };
}

const EXECUTABLE = "100755";
export const LINK = "120000";

/** What became of a file besides its lines; `mode` is git's, where it is known. */
export function fileWord(file: FileDiff, mode: string | undefined): string {
  switch (file.status) {
    case "added":
      if (mode === LINK) return t("new link");
      return mode === EXECUTABLE ? t("new, executable") : t("new");
    case "deleted":
      return t("deleted");
    case "renamed":
      return t("was {0}", shownPath(file.from ?? ""));
    case "mode":
      return modeWord(mode);
    case "type":
      return mode === LINK ? t("a link now") : t("other type");
    case "modified":
      if (mode === LINK) return t("link");
      return file.binary ? t("binary") : "";
  }
}

/** What a change is whose lines do not say it. */
export function wholeFile(file: FileDiff, mode: string | undefined): string {
  if (file.binary) return t("the whole file");
  switch (file.status) {
    case "renamed":
      return t("the name");
    case "added":
    case "deleted":
      return file.hunks.some(({ oldLines, newLines }) => oldLines + newLines > 0) ? t("the file") : t("an empty file");
    default:
      return modeWord(mode);
  }
}

function modeWord(mode: string | undefined): string {
  if (mode === undefined) return t("other mode");
  return mode === EXECUTABLE ? t("executable now") : t("not executable any more");
}

/** Everything that is known about a result, as a page of Markdown. What others wrote is quoted, never interpreted. */
export function evidence(delegation: Delegation): string {
  const out = [`# ${stateName(delegation)}: ${inline(delegation.title)}`, ""];
  if (delegation.verdict) out.push(sentence(verdictMeaning(delegation.verdict)), "");
  if (delegation.error) out.push(`**${inline(delegation.error.message)}** ${inline(delegation.error.hint ?? "")}`, "");
  if (delegation.reservations.length > 0) {
    out.push(`## ${t("What stands against it")}`, "");
    for (const one of delegation.reservations) out.push(`- ${sentence(reservationMeaning(one))}`);
    out.push("");
  }
  out.push(`## ${t("Checks")}`, "");
  const again = delegation.result !== undefined && delegation.state === "checking";
  if (delegation.checks.length === 0) out.push(again ? t("They are running.") : t("None ran."), "");
  else if (again) out.push(`**${t("The checks are running again. Below stands what they said before.")}**`, "");
  for (const check of delegation.checks) {
    out.push(`### ${inline(check.name)}: ${checkWord(check, delegation).text}`, "", checkFacts(check).join(" · "), "");
    out.push(fenced(check.argv.map(quoted).join(" ")), "");
    if (check.control && check.control.survived.length > 0) {
      out.push(t("These tests still pass when the code under test is broken on purpose:"), "");
      out.push(...check.control.survived.map((name) => `- ${inline(name)}`), "");
    }
    if (check.wrongTree && check.wrongTree.length > 0) {
      out.push(
        t("It loaded these files of your checkout:"),
        "",
        ...check.wrongTree.map((name) => `- ${inline(name)}`),
        "",
      );
    }
    if (check.outputTail.trim() !== "")
      out.push(t("The end of its output:"), "", fenced(check.outputTail.trimEnd()), "");
  }
  const { summary, text } = delegation.result ?? {};
  if (summary ?? text) out.push(`## ${t("What the agent says")}`, "", fenced((summary ?? text ?? "").trim()), "");
  out.push(`## ${t("Who did it")}`, "");
  for (const attempt of delegation.attempts) {
    const facts = [attempt.delegator, attempt.tool, attempt.model].filter((fact) => fact);
    out.push(`${attempt.n}. ${facts.map((fact) => inline(fact ?? "")).join(" · ")}`);
  }
  out.push(
    "",
    delegation.confined ? t("It worked in a sandbox.") : t("It was not confined: it could do what you can."),
    "",
  );
  return out.join("\n");
}

/** Text as Markdown that shows exactly this text, on one line. */
function inline(text: string): string {
  return markdown(text.replace(/\s+/gu, " "));
}

export function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

/** Text in a fence that it cannot close. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/gu)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}`;
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
