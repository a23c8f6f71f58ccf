/** States and results of delegations as text, the same in every view. */

import { t } from "../base/l10n.ts";
import { oneLine, shortenMiddle, shortErrorText } from "./formatting.ts";
import {
  RESERVATION_REASONS,
  VERDICT_MEANINGS,
  type BaseComparison,
  type ChangedTest,
  type CheckResult,
  type Count,
  type Delegation,
  type DelegatorEntry,
  type ErrorInfo,
  type ErrorKind,
  type PermissionOption,
  type PermissionRequest,
  type Reservation,
  type ReservationFact,
  type Verdict,
} from "../protocol.ts";

/** The state in a word; the verdict if finished. */
export function stateName(delegation: Pick<Delegation, "state" | "verdict" | "rescueRef">): string {
  switch (delegation.state) {
    case "preparing":
      return t("Preparing");
    case "queued":
      return t("Queued");
    case "running":
      return t("Running");
    case "waiting":
      return t("Waiting for you");
    case "checking":
      return t("Checking");
    case "finished":
      return delegation.rescueRef !== undefined
        ? t("Discarded")
        : delegation.verdict
          ? verdictName(delegation.verdict)
          : t("Finished");
  }
}

/** How far a long step is: `tried 4 of 40 small changes, about 30 s left`. */
export function countText({ of, done, total, run = "", secondsLeft }: Count): string {
  const [now, all] = [done.toLocaleString(), total.toLocaleString()];
  const text = {
    tests: t("ran {0} of {1} tests", now, all),
    small_changes: t("tried {0} of {1} small changes", now, all),
    places: t("undoing {0} of {1} places", now, all),
  }[of];
  const named = run === "" ? text : `${text} (${run})`;
  if (secondsLeft === undefined) return named;
  return secondsLeft < 90
    ? t("{0}, about {1} s left", named, Math.round(secondsLeft))
    : t("{0}, about {1} min left", named, Math.round(secondsLeft / 60));
}

/** The current activity, with the state if the activity does not say it. */
export function activityText(
  delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "activity" | "count">,
): string {
  const state = stateName(delegation);
  const activity = delegation.count ? countText(delegation.count) : (delegation.activity ?? "").trim();
  if (activity === "") return state;
  const said = activity.charAt(0).toUpperCase() + activity.slice(1);
  if (delegation.state === "running") return said;
  return said.startsWith(state) ? said : `${state}: ${activity}`;
}

/** Name of a verdict. */
export function verdictName(verdict: Verdict): string {
  switch (verdict) {
    case "answered":
      return t("Answered");
    case "verified":
      return t("Verified");
    case "unverified":
      return t("Unverified");
    case "checks_failed":
      return t("Checks failed");
    case "no_changes":
      return t("No changes");
    case "failed":
      return t("Failed");
    case "cancelled":
      return t("Cancelled");
    case "timed_out":
      return t("Timed out");
    case "budget_exhausted":
      return t("Limit reached");
    case "interrupted":
      return t("Interrupted");
  }
}

/** "Verified: a required check passed …"; the cause of a failure and the reservations instead of the meaning. */
export function verdictSummary(
  delegation: Pick<Delegation, "verdict" | "reservations" | "reservationFacts" | "error">,
): string {
  const { verdict, reservations, reservationFacts, error } = delegation;
  if (!verdict) return t("Finished");
  const reasons = reservations.map((reservation) => reservationReason(reservation, reservationFacts));
  if (error) reasons.unshift(causeOf(error));
  if (verdict === "answered" && reasons.length === 0) return verdictName(verdict);
  return `${verdictName(verdict)}: ${reasons.join("; ") || VERDICT_MEANINGS[verdict]}`;
}

/** What a reservation is about, as sentences; none if only its meaning is known. */
export function factsOf(reservation: Reservation, facts: readonly ReservationFact[] = []): readonly string[] {
  return facts.filter((fact) => fact.reservation === reservation).map(({ text }) => text);
}

/** Why a result is not verified, without a full stop: the first fact, or what the reservation means. */
export function reservationReason(reservation: Reservation, facts?: readonly ReservationFact[]): string {
  const [first, ...others] = factsOf(reservation, facts);
  if (first === undefined) return RESERVATION_REASONS[reservation].reason;
  const text = first.replace(/\.$/u, "");
  return others.length === 0 ? text : t("{0} (and {1} more)", text, others.length);
}

/** Why something failed, without a full stop: what follows the first line is output of a program. */
function causeOf({ message }: ErrorInfo): string {
  return oneLine(message.trim().split("\n", 1)[0] ?? "", Infinity).replace(/\.$/, "");
}

/** The tool or model server, and the model, for quick picks. */
export function toolAndModel({ delegator, toolDisplayName }: DelegatorEntry): string {
  const { tool, modelServer, model } = delegator;
  return [toolDisplayName ?? tool ?? modelServer ?? "", model ?? ""].filter((part) => part !== "").join(" · ");
}

/** The same for a list in which one delegator is the default. */
export function delegatorFacts(entry: DelegatorEntry, defaultName: string | undefined): string {
  const mark = entry.delegator.name === defaultName ? t("default") : "";
  return [mark, toolAndModel(entry)].filter((part) => part !== "").join(" · ");
}

export function isLive(delegation: Pick<Delegation, "state">): boolean {
  return delegation.state !== "finished";
}

/** Finished, with pending hunks. */
export function isToReview(delegation: Pick<Delegation, "state" | "review" | "rescueRef">): boolean {
  return delegation.state === "finished" && delegation.review.pending > 0 && delegation.rescueRef === undefined;
}

/** Finished, with a result that instructions can be added to. */
export function canReply(delegation: Pick<Delegation, "state" | "rescueRef" | "result">): boolean {
  return !isLive(delegation) && delegation.rescueRef === undefined && delegation.result !== undefined;
}

/** Outcomes without a usable result, which the user did not ask for. */
const FAILURES: readonly (Verdict | undefined)[] = [
  "failed",
  "no_changes",
  "timed_out",
  "budget_exhausted",
  "interrupted",
];

/** Failed or empty, until it is dismissed or discarded. */
export function isFailure(
  delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "dismissed" | "supersededBy">,
): boolean {
  const { verdict, rescueRef, dismissed, supersededBy } = delegation;
  if (isLive(delegation) || dismissed === true || rescueRef !== undefined || supersededBy !== undefined) return false;
  return FAILURES.includes(verdict);
}

/** What may be different the next time without anyone doing anything about it. */
const PASSING: ReadonlySet<ErrorKind> = new Set([
  "tool_crashed",
  "tool_no_result",
  "rate_limited",
  "overloaded",
  "connection_failed",
  "timed_out",
  "stalled",
  "stream_truncated",
  "output_truncated",
  "empty_output",
  "malformed_output",
  "interrupted",
  "internal",
] satisfies ErrorKind[]);

/** Whether it failed for a reason that may be gone when it is tried again. */
export function retryMayHelp(delegation: Delegation): boolean {
  return isFailure(delegation) && (delegation.error === undefined || PASSING.has(delegation.error.kind));
}

/** Whether the user must do something before it can go on: answer, retry or dismiss, resolve a conflict. */
export function needsAttention(delegation: Delegation): boolean {
  const conflict = (delegation.conflicts?.length ?? 0) > 0 && isToReview(delegation);
  return delegation.state === "waiting" || conflict || isFailure(delegation);
}

/** `1 configuration problem`, `2 configuration problems`. */
export function problemsText(count: number): string {
  return count === 1 ? t("1 configuration problem") : t("{0} configuration problems", count);
}

/** `1 change`, `3 changes`: those that are pending. */
export function changesText({ review: { pending } }: Pick<Delegation, "review">): string {
  return pending === 1 ? t("1 change") : t("{0} changes", pending);
}

/** `1 change in 1 file`, `3 changes in 2 files`. */
export function pendingText(delegation: Pick<Delegation, "review" | "result">): string {
  const files = delegation.result?.files.length ?? 0;
  const changes = changesText(delegation);
  if (files === 0) return changes;
  return files === 1 ? t("{0} in 1 file", changes) : t("{0} in {1} files", changes, files);
}

/** The outcome of a check: `4 passed (1.9 s)`. */
export function checkText(
  check: Pick<CheckResult, "ok" | "passed" | "failed" | "skipped" | "exitCode" | "seconds">,
): string {
  const parts: string[] = [];
  if (check.failed) parts.push(t("{0} failed", check.failed));
  if (check.passed) parts.push(t("{0} passed", check.passed));
  if (check.skipped) parts.push(t("{0} skipped", check.skipped));
  if (parts.length === 0) {
    parts.push(
      check.ok ? t("passed") : check.exitCode === undefined ? t("failed") : t("failed, exit code {0}", check.exitCode),
    );
  }
  return `${parts.join(", ")} (${check.seconds.toFixed(1)} s)`;
}

/** What differs when the tests of the base judge the result. */
export function earlierTests({ earlier, lost }: Pick<BaseComparison, "earlier" | "lost">): string {
  return earlier > 0
    ? t("{0} of {1} earlier tests do not pass as they were, or no longer run.", lost, earlier)
    : t("The check passes only with what the result changed.");
}

/** The outcome of a test's earlier version on the result, and that of the test as it is now. */
export function changedTest({ test, restored, result }: ChangedTest): string {
  return `${test}: ${restored} → ${result}`;
}

/** Characters of a title in a message: the verdict comes after it. */
const MAX_TITLE = 60;

/** The result of a delegation in sentences, for a notification. */
export function endMessage(delegation: Delegation): string {
  const { title, delegator, verdict, error } = delegation;
  const by = t("“{0}” by {1}.", shortenMiddle(title, MAX_TITLE), delegator);
  const toReview = isToReview(delegation) ? t("{0} to review.", pendingText(delegation)) : "";
  const parts =
    verdict && error // what to do about it comes last: it may end with a path
      ? [by, toReview, `${verdictName(verdict)}: ${shortErrorText(error)}`]
      : [by, `${verdictSummary(delegation)}.`, toReview];
  return parts.filter((part) => part !== "").join(" ");
}

/** Severity of the notification for a verdict. */
export function endSeverity(verdict: Verdict | undefined): "info" | "warning" | "error" {
  switch (verdict) {
    case "verified":
    case "answered":
    case "cancelled":
      return "info";
    case "unverified":
    case "checks_failed":
    case "no_changes":
      return "warning";
    default:
      return "error";
  }
}

/** A codicon for the state, and the ID of a theme color. */
export function stateIcon(delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "review">): {
  id: string;
  color?: string;
} {
  switch (delegation.state) {
    case "preparing":
    case "queued":
      return { id: "clock" };
    case "running":
      return { id: "loading~spin", color: "charts.blue" };
    case "checking":
      return { id: "beaker", color: "charts.blue" };
    case "waiting":
      return { id: "bell-dot", color: "list.warningForeground" };
    case "finished":
      return delegation.rescueRef === undefined ? verdictIcon(delegation.verdict) : { id: "trash" };
  }
}

function verdictIcon(verdict: Verdict | undefined): { id: string; color?: string } {
  switch (verdict) {
    case "verified":
      return { id: "verified-filled", color: "charts.green" };
    case "answered":
      return { id: "comment", color: "charts.green" };
    case "unverified":
      return { id: "unverified", color: "list.warningForeground" };
    case "checks_failed":
      return { id: "warning", color: "list.warningForeground" };
    case "no_changes":
      return { id: "circle-slash" };
    case "cancelled":
      return { id: "debug-stop" };
    case "timed_out":
    case "budget_exhausted":
      return { id: "watch", color: "list.errorForeground" };
    default:
      return { id: "error", color: "list.errorForeground" };
  }
}

/** Options of a permission request in the order in which they are offered: the first is never an "always". */
export function orderedOptions(request: Pick<PermissionRequest, "options">): readonly PermissionOption[] {
  return [...request.options.filter((option) => !isAlways(option)), ...request.options.filter(isAlways)];
}

/** The answer that also adds the proposed rule to the delegator; undefined if there is none. */
export function rememberedAnswer(
  request: Pick<PermissionRequest, "options" | "rule">,
): { readonly option: PermissionOption; readonly title: string } | undefined {
  const { rule } = request;
  const option = request.options.find(({ kind }) => kind === "allow_once");
  if (!rule || !option) return undefined;
  const what = oneLine(rule.command ?? rule.path ?? "", 60);
  if (rule.kind === "execute") return { option, title: t("Always Allow “{0}”", rule.exact ? what : `${what} …`) };
  const file = what.replace(/^\//, "");
  return {
    option,
    title: rule.kind === "edit" ? t("Always Allow Edits of {0}", file) : t("Always Allow Reading {0}", file),
  };
}

/** How a question got its answer. */
export function answeredBy(by: string): string {
  switch (by) {
    case "deadline":
      return t("because no one answered in time");
    case "withdrawn": // english: allow withdrawn - a wire value
      return t("the agent cancelled the question");
    case "policy":
      return t("answered by a rule");
    case "cli":
      return t("answered in a terminal");
    case "lsp":
      return t("answered in an editor");
    default:
      return t("answered by {0}", by);
  }
}

/** Whether it also applies to later requests. */
export function isAlways(option: Pick<PermissionOption, "kind">): boolean {
  return option.kind.endsWith("_always");
}
