/** How delegations are put into words, the same in every view: states, verdicts, reservations, times, amounts. */

import { t } from "../base/l10n.ts";
import type {
  CheckResult,
  Delegation,
  Delegator,
  PermissionOption,
  PermissionRequest,
  Reservation,
  Verdict,
} from "../protocol.ts";

/** A verdict as a name. */
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

/** What a verdict means, as a sentence without its full stop. */
export function verdictMeaning(verdict: Verdict): string {
  switch (verdict) {
    case "answered":
      return t("the model answered");
    case "verified":
      return t("a required check passed on exactly this result, and nothing speaks against it");
    case "unverified":
      return t("there is a result, and a reason not to rely on it without looking");
    case "checks_failed":
      return t("a required check fails on the result and passes without it");
    case "no_changes":
      return t("the agent ended well and changed nothing");
    case "failed":
      return t("it came to nothing; what it left is kept");
    case "cancelled":
      return t("stopped on request; what was done is kept");
    case "timed_out":
      return t("a time limit passed; what was done is kept");
    case "budget_exhausted":
      return t("a limit on tokens, turns or money was reached; what was done is kept");
    case "interrupted":
      return t("its worker died; what was done is kept");
  }
}

/** What speaks against a result. */
export function reservationMeaning(reservation: Reservation): string {
  switch (reservation) {
    case "no_checks":
      return t("no required check ran");
    case "no_control":
      return t("nothing shows that the new tests can fail");
    case "flaky":
      return t("a check was red once and green once on the same tree");
    case "fails_on_base":
      return t("a check is red, and was red before the work began");
    case "check_changed":
      return t("the result changes a file that decides what a check does");
    case "outside_scope":
      return t("the result touches files that this recipe does not write, or removes tests");
    case "wrong_tree":
      return t("a check loaded files of your checkout instead of the result");
    case "nothing_bitten":
      return t("with the code under test broken on purpose, every new test still passes");
    case "tampered":
      return t("the journal held lines that its worker did not write; they were cut out");
  }
}

/** "Verified: a required check passed …", or the reservations instead of the meaning. */
export function verdictWords(verdict: Verdict, reservations: readonly Reservation[]): string {
  const because = reservations.map(reservationMeaning).join("; ");
  if (verdict === "answered" && because === "") return verdictName(verdict);
  return `${verdictName(verdict)}: ${because || verdictMeaning(verdict)}`;
}

/** What it is doing, in a word; for a finished one the verdict. */
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

/** What it does now: what it says of itself, after its state where that says more. */
export function nowWords(delegation: Pick<Delegation, "state" | "verdict" | "rescueRef" | "activity">): string {
  const state = stateName(delegation);
  const activity = (delegation.activity ?? "").trim();
  if (activity === "") return state;
  if (delegation.state === "running") return activity;
  const said = activity.charAt(0).toUpperCase() + activity.slice(1);
  return said.startsWith(state) ? said : `${state}: ${activity}`;
}

/** What does the work, as people call it: the names of tools are those of configuration files. */
export function toolName(tool: string): string {
  switch (tool) {
    case "generic":
      return t("own program");
    case "claude":
      return "Claude Code";
    case "ghostwriter":
      return "Ghostwriter";
    default:
      return tool;
  }
}

/** The tool, or the model server, and the model of a delegator: what a picker says of it. */
export function driverWords({ tool, modelServer, model }: Pick<Delegator, "tool" | "modelServer" | "model">): string {
  return [tool ? toolName(tool) : (modelServer ?? ""), model ?? ""].filter((part) => part !== "").join(" · ");
}

export function isLive(delegation: Pick<Delegation, "state">): boolean {
  return delegation.state !== "finished";
}

/** Finished, with hunks that nobody has decided on. */
export function isToReview(delegation: Pick<Delegation, "state" | "review" | "rescueRef">): boolean {
  return delegation.state === "finished" && delegation.review.pending > 0 && delegation.rescueRef === undefined;
}

/** Milliseconds from the start to the end, or to `now`. */
export function spent(delegation: Pick<Delegation, "startedAt" | "finishedAt">, now: number): number {
  const end = delegation.finishedAt === undefined ? now : Date.parse(delegation.finishedAt);
  return Math.max(0, end - Date.parse(delegation.startedAt));
}

/** `0:42`, `12:03`, `1:02:03`. */
export function duration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** For a screen reader: `42 seconds`, `12 minutes 3 seconds`. */
export function spokenDuration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  const minutes = Math.floor(seconds / 60);
  return minutes === 0 ? t("{0} seconds", seconds) : t("{0} minutes {1} seconds", minutes, seconds % 60);
}

/** How long ago, or the day: `just now`, `5 min ago`, `3 h ago`, `21 Nov`. */
export function ago(time: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(time)) / 60_000);
  if (minutes < 1) return t("just now");
  if (minutes < 60) return t("{0} min ago", minutes);
  if (minutes < 24 * 60) return t("{0} h ago", Math.floor(minutes / 60));
  return new Date(time).toLocaleDateString([], { day: "numeric", month: "short" });
}

/** `812`, `4.8k`, `1.2M`. */
export function count(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 999_500) return `${short(value / 1_000)}k`;
  return `${short(value / 1_000_000)}M`;
}

function short(value: number): string {
  return value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0);
}

/** Tokens read and written together; undefined where nothing is known. */
export function tokens(delegation: Pick<Delegation, "usage">): string | undefined {
  const all = delegation.usage.inputTokens + delegation.usage.outputTokens;
  return all > 0 ? t("{0} tokens", count(all)) : undefined;
}

/** What it has cost; undefined where that is not known, or nothing. */
export function cost(delegation: Pick<Delegation, "costUsd" | "attempts">): string | undefined {
  const amounts = delegation.attempts.flatMap(({ costUsd }) => (costUsd === undefined ? [] : [Number(costUsd)]));
  const value = delegation.costUsd === undefined ? sum(amounts) : Number(delegation.costUsd);
  if (value === undefined || !(value > 0)) return undefined;
  const about = delegation.attempts.some(({ costEstimated }) => costEstimated) ? "~" : "";
  return `${about}$${value < 0.1 ? value.toFixed(4).replace(/0{1,2}$/, "") : value.toFixed(2)}`;
}

function sum(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((all, value) => all + value, 0);
}

/** `1 change in 1 file`, `3 changes in 2 files`. */
export function pendingWords(delegation: Pick<Delegation, "review" | "result">): string {
  const { pending } = delegation.review;
  const files = delegation.result?.files.length ?? 0;
  const changes = pending === 1 ? t("1 change") : t("{0} changes", pending);
  if (files === 0) return changes;
  return files === 1 ? t("{0} in 1 file", changes) : t("{0} in {1} files", changes, files);
}

/** How one check went: `4 passed (1.9 s)`. */
export function checkWords(
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

/** The end of a delegation in sentences, for a notification. */
export function endWords(delegation: Delegation): string {
  const { title, delegator, verdict, reservations, error } = delegation;
  const parts = [
    t("“{0}” by {1}.", title, delegator),
    `${verdict ? verdictWords(verdict, reservations) : t("Finished")}.`,
  ];
  if (error) parts.push([error.message, error.hint ?? ""].filter((part) => part !== "").join(" "));
  if (isToReview(delegation)) {
    parts.push(
      delegation.review.pending === 1
        ? t("{0} waits for your decision.", pendingWords(delegation))
        : t("{0} wait for your decision.", pendingWords(delegation)),
    );
  }
  return parts.join(" ");
}

/** How much of a message the end is. */
export function endLevel(verdict: Verdict | undefined): "info" | "warning" | "error" {
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

/** A codicon for how it stands, and the id of a theme colour. */
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

/**
 * The options of a question in the order in which they are offered: what holds once before what holds for ever, so that
 * the first one never is an "always".
 */
export function orderedOptions(request: Pick<PermissionRequest, "options">): readonly PermissionOption[] {
  return [...request.options.filter((option) => !isAlways(option)), ...request.options.filter(isAlways)];
}

/** It holds from now on, not only for this question. */
export function isAlways(option: Pick<PermissionOption, "kind">): boolean {
  return option.kind.endsWith("_always");
}

/** One line, at most `most` characters. */
export function oneLine(text: string, most = 120): string {
  const line = text.split(/\s+/).join(" ").trim();
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
}

/** Words as a sentence of its own. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  const ended = /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return trimmed === "" ? "" : ended.charAt(0).toUpperCase() + ended.slice(1);
}

/** Several lines as one, their borders still to be seen. */
export function joinedLines(text: string, most = 200): string {
  const lines = text.split("\n").map((line) => line.trim());
  return oneLine(lines.filter((line) => line !== "").join(" · "), most);
}
