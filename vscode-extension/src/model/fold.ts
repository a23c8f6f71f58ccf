/**
 * What an event does to a delegation, as far as it can be said from the event alone. What cannot (hunk counts after an
 * amend, checks run again, groups) makes `stale`: the store reads the delegation again, once, after the burst.
 */

import type { Attempt, Delegation, Event, State, Usage } from "../protocol.ts";

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
    next.state = STATE_AFTER[event.type] ?? next.state;
    if (STALE_AFTER.has(event.type)) stale = true;
    apply(next, event);
  }
  return { delegation: next, stale };
}

function apply(next: Delegation, event: Event): void {
  switch (event.type) {
    case "base":
      next.base = event.commit;
      return;
    case "worktree":
      next.worktree = event.path;
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
      delete next.verdict;
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
      return;
    case "usage": {
      const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls } = event;
      const usage = { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls };
      next.attempts = next.attempts.map((attempt) =>
        attempt.n === event.attempt
          ? {
              ...attempt,
              usage,
              ...(event.costUsd === undefined ? {} : { costUsd: event.costUsd }),
              ...(event.estimated === undefined ? {} : { costEstimated: event.estimated }),
            }
          : attempt,
      );
      next.usage = total(next.attempts);
      return;
    }
    case "permission": {
      const { requestId, attempt, title, detail, options, deadline, onDeadline } = event;
      const question = { requestId, attempt, title, detail, options, onDeadline };
      next.waitingFor = deadline === undefined ? question : { ...question, deadline };
      return;
    }
    case "permission_answered":
      delete next.waitingFor;
      return;
    case "attempt_failed":
      next.activity = event.message;
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
      next.finishedAt ??= event.at;
      if (event.error) next.error = event.error;
      delete next.waitingFor;
      delete next.activity;
      return;
    default:
      return;
  }
}

function total(attempts: readonly Attempt[]): Usage {
  const sum = { ...NO_USAGE };
  for (const { usage } of attempts) {
    for (const name of Object.keys(sum) as (keyof Usage)[]) sum[name] += usage[name];
  }
  return sum;
}
