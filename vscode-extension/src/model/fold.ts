/**
 * What an event does to a delegation, as far as it can be said from the event alone. What cannot (hunk counts after an
 * amend, checks run again, groups) makes `stale`: the store reads the delegation again, once, after the burst.
 */

import type { Attempt, CheckResult, Delegation, Event, State, Usage } from "../protocol.ts";

const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  turns: 0,
  toolCalls: 0,
};

/** As the contract's table "after the event | the state is" has it. */
const STATE_AFTER: Partial<Record<Event["type"], State>> = {
  queued: "queued",
  started: "running",
  permission: "waiting",
  permission_answered: "running",
  check_started: "checking",
  finished: "finished",
};

/** The moves that are legal; an event that asks for another one leaves the state as it is. */
const MOVES: Record<State, readonly State[]> = {
  preparing: ["queued", "running", "finished"],
  queued: ["preparing", "running", "finished"],
  running: ["waiting", "checking", "finished"],
  waiting: ["running", "checking", "finished"],
  checking: ["running", "finished"],
  finished: ["checking"], // `delegations/check`: the same result, judged again
};

/** Events after which only the sidecar knows how things stand. */
const STALE_AFTER = new Set<Event["type"]>([
  "result",
  "finished",
  "decided",
  "applied",
  "undone",
  "amended",
  "superseded",
  "discarded",
  "unknown",
]);

export interface Folded {
  readonly delegation: Delegation;
  readonly stale: boolean;
}

/** `events` follow `delegation.lastSeq` without a gap. The delegation that came in is not changed. */
export function fold(delegation: Delegation, events: readonly Event[]): Folded {
  let stale = false;
  const next: Delegation = { ...delegation };
  for (const event of events) {
    next.lastSeq = event.seq;
    move(next, STATE_AFTER[event.type]);
    if (STALE_AFTER.has(event.type)) stale = true;
    apply(next, event);
  }
  return { delegation: next, stale };
}

function move(next: Delegation, state: State | undefined): void {
  if (state === undefined || !MOVES[next.state].includes(state)) return;
  if (next.state === "finished") {
    // Until the new verdict is there, the old one does not hold.
    delete next.verdict;
    delete next.finishedAt;
    delete next.error;
    next.reservations = [];
  }
  next.state = state;
}

function apply(next: Delegation, event: Event): void {
  switch (event.type) {
    case "base":
      next.base = event.commit;
      return;
    case "worktree":
      next.worktree = event.path;
      delete next.rescueRef; // it was brought back
      return;
    case "queued":
      next.activity = `queued, position ${event.position}`;
      return;
    case "started": {
      const attempt: Attempt = {
        n: event.attempt,
        delegator: event.delegator,
        model: event.model,
        startedAt: event.at,
        from: next.base ?? "",
        usage: NO_USAGE,
        ...(event.tool === undefined ? {} : { tool: event.tool }),
      };
      next.attempts = [...next.attempts.filter((known) => known.n !== event.attempt), attempt];
      if (event.confined !== undefined) next.confined = event.confined;
      delete next.waitingFor;
      delete next.activity;
      return;
    }
    case "phase":
      next.activity = event.text;
      return;
    case "tool_call":
      next.activity = event.title;
      return;
    case "file":
      next.activity = `${event.change} ${event.path}`;
      return;
    case "check_started":
      next.activity = event.name;
      delete next.waitingFor;
      return;
    case "check_finished":
      next.checks = putCheck(next.checks, event);
      return;
    case "usage": {
      const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls } = event;
      const usage = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls };
      changeAttempt(next, event.attempt, {
        usage,
        ...(event.costUsd === undefined ? {} : { costUsd: event.costUsd }),
        ...(event.estimated === undefined ? {} : { costEstimated: event.estimated }),
      });
      next.usage = total(next.attempts);
      delete next.costUsd; // what was read counts no longer: the attempts do
      return;
    }
    case "permission": {
      const { requestId, attempt, title, detail, options, deadline, onDeadline } = event;
      const question = { requestId, attempt, title, detail, options, onDeadline };
      next.waitingFor = deadline === undefined ? question : { ...question, deadline };
      return;
    }
    case "permission_answered":
      if (next.waitingFor?.requestId === event.requestId) delete next.waitingFor;
      return;
    case "attempt_failed":
      next.activity = event.message;
      changeAttempt(next, event.attempt, { finishedAt: event.at });
      delete next.waitingFor;
      return;
    case "result":
      next.result = {
        files: event.files,
        ...(event.text === undefined ? {} : { text: event.text }),
        ...(event.summary === undefined ? {} : { summary: event.summary }),
      };
      if (event.head !== undefined) next.head = event.head;
      return;
    case "finished":
      next.verdict = event.verdict;
      next.reservations = event.reservations;
      next.finishedAt = event.at;
      if (event.error) next.error = event.error;
      else delete next.error;
      delete next.waitingFor;
      delete next.activity;
      return;
    default:
      return;
  }
}

function changeAttempt(next: Delegation, n: number, change: Partial<Attempt>): void {
  next.attempts = next.attempts.map((attempt) => (attempt.n === n ? { ...attempt, ...change } : attempt));
}

/** A check in the place of the earlier one of its name. */
function putCheck(checks: readonly CheckResult[], check: CheckResult): CheckResult[] {
  const earlier = checks.some(({ name }) => name === check.name);
  return earlier ? checks.map((known) => (known.name === check.name ? check : known)) : [...checks, check];
}

function total(attempts: readonly Attempt[]): Usage {
  const sum = { ...NO_USAGE };
  for (const { usage } of attempts) {
    for (const name of Object.keys(sum) as (keyof Usage)[]) sum[name] += usage[name];
  }
  return sum;
}
