/**
 * Apply events to a delegation, exactly as the sidecar does (`journal/summaries/fold.py`); tests compare both with
 * `protocol/examples/folds.jsonl`. Only an event of a newer version cannot be folded: then `stale` is set, and the store
 * reads the delegation again, once per burst of events.
 */

import {
  CONFINEMENTS,
  STATE_AFTER_EVENT,
  STATE_TRANSITIONS,
  type Attempt,
  type ChangedPlace,
  type Confinement,
  type Delegation,
  type DelegationResult,
  type Event,
  type Sandbox,
  type SentMessage,
  type Usage,
} from "../protocol.ts";
import { isMoney, sumOfMoney } from "./money.ts";

/** The most attempts and checks of a delegation; only a damaged journal has more. */
const MOST_ATTEMPTS = 1_000;
/** The most changed places that a result keeps. */
const MOST_PLACES = 200;
const ACTIVITY_CHARACTERS = 160;
/** The tool of a delegator that runs a command of the user. */
const CUSTOM_COMMAND = "generic";
/** The largest count; only a damaged journal has a larger one. */
const LARGEST_COUNT = 2 ** 53;
/** These levels leave the processes of an agent with the user's permissions. */
const UNCONFINED: readonly Confinement[] = ["none", "namespace"];
/** What Python's `str.split` splits at. */
const WHITE_SPACE = /[\p{White_Space}\x1c-\x1f]+/u;

const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  turns: 0,
  toolCalls: 0,
};

/** New values of fields; undefined removes a field. */
type Fields<T> = { [K in keyof T]?: T[K] | undefined };

export interface FoldResult {
  readonly delegation: Delegation;
  readonly stale: boolean;
}

/** `events` must follow `delegation.lastSeq` without a gap. The given delegation is not changed. */
export function fold(delegation: Delegation, events: readonly Event[]): FoldResult {
  let next = delegation;
  for (const event of events) {
    const changed = change(next, event);
    const counted = "activity" in changed ? { count: undefined } : {};
    next = replace(next, { lastSeq: event.seq, ...stateChange(next, event), ...counted, ...changed });
  }
  return { delegation: next, stale: events.some(({ type }) => type === "unknown") };
}

function stateChange(now: Delegation, event: Event): Fields<Delegation> {
  const state = STATE_AFTER_EVENT[event.type];
  if (state === undefined || state === now.state || !STATE_TRANSITIONS[now.state].includes(state)) return {};
  // After the end, the old verdict is invalid until there is a new one.
  const again = {
    verdict: undefined,
    reservations: [],
    reservationFacts: undefined,
    places: undefined,
    finishedAt: undefined,
    recheckedAt: event.at,
    error: undefined,
  };
  return now.state === "finished" ? { state, ...again } : { state };
}

function change(now: Delegation, event: Event): Fields<Delegation> {
  switch (event.type) {
    case "base":
      return { base: event.commit };
    case "worktree":
      return { worktree: event.path, rescueRef: undefined };
    case "queued":
      return { activity: `number ${event.position} in the queue` };
    case "started": {
      const attempts = startAttempt(now, event);
      const activity = clip(`starting ${event.delegator}`);
      // A fresh worktree: what the earlier attempt changed is not part of this one.
      const isNew = now.result === undefined && attempts.length > now.attempts.length;
      const isFresh = isNew && event.commit !== undefined && event.commit !== now.head;
      const head = isFresh ? { head: undefined } : {};
      return { attempts, ...head, waitingFor: undefined, terminal: undefined, activity, ...costs(attempts) };
    }
    case "agent_started": {
      const sandbox = now.sandbox ? weakest(now.sandbox, event.sandbox) : event.sandbox;
      const { terminal } = event;
      const activity = terminal ? { activity: "working in a terminal" } : {};
      return { sandbox, confined: !UNCONFINED.includes(sandbox.reached), terminal, ...activity };
    }
    case "phase":
      return { activity: clip(event.text), count: event.count };
    case "note":
      return { activity: clip(event.text) };
    case "prompt":
      return { activity: "waiting for the first answer" };
    case "text":
      return { activity: saidLast(now, event.text) };
    case "thinking":
      return { activity: "thinking" };
    case "tool_call":
      return { activity: clip(event.title || event.name) };
    case "file":
      return { activity: clip(`${event.change} ${event.path}`) };
    case "usage": {
      const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls } = event;
      const attempts = changeAttempt(now, event.attempt, {
        usage: { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, turns, toolCalls },
        costUsd: isMoney(event.costUsd) ? event.costUsd : undefined,
        costSource: isMoney(event.costUsd) ? knownSource(event.costSource) : undefined,
        priceDate: isMoney(event.costUsd) ? event.priceDate : undefined,
        costEstimated: event.estimated,
      });
      return { attempts, usage: total(attempts), ...costs(attempts) };
    }
    case "session":
      return { attempts: changeAttempt(now, event.attempt, { sessionId: event.sessionId }) };
    case "permission":
      return { waitingFor: omit(event, "type", "seq", "at"), activity: clip(`asks: ${event.title}`) };
    case "permission_answered": {
      const activity = event.by === "deadline" ? "no one answered in time" : clip(`answered by ${event.by}`);
      return now.waitingFor?.requestId === event.requestId ? { waitingFor: undefined, activity } : { activity };
    }
    case "user_message": {
      const said = { id: event.messageId, text: clip(event.text), by: event.by, delivery: event.delivery };
      return { messages: [...(now.messages ?? []), said].slice(0, MOST_ATTEMPTS) };
    }
    case "grouped":
      return { groupId: event.groupId };
    case "message_delivered": {
      const messages = now.messages?.map((one) => (one.id === event.messageId ? { ...one, delivered: true } : one));
      return messages ? { messages } : {};
    }
    case "attempt_failed":
      return {
        attempts: changeAttempt(now, event.attempt, { failure: event.error, finishedAt: event.at }),
        waitingFor: undefined,
        terminal: undefined,
        activity: clip(event.error.message),
      };
    case "checkpoint":
      return {
        attempts: changeAttempt(now, event.attempt, {
          endCommit: event.commit,
          rescueRef: event.rescueRef,
          ...(event.files?.length ? { files: event.files } : {}),
        }),
        head: event.commit,
        terminal: undefined,
      };
    case "result": {
      const head = event.head === undefined ? {} : { head: event.head };
      const end = event.head === undefined ? {} : { endCommit: event.head };
      const { text, summary, files } = event;
      return {
        ...head,
        terminal: undefined,
        places: undefined,
        result: replace<DelegationResult>({ files }, { text, summary }),
        review: { pending: Math.max(0, event.hunks ?? 0), accepted: 0, rejected: 0 },
        attempts: changeAttempt(now, event.attempt, { finishedAt: event.at, ...end }),
      };
    }
    case "check_started":
      return { waitingFor: undefined, activity: clip(`checking: ${event.name}`) };
    case "check_finished": {
      const result = omit(event, "type", "seq", "at", "attempt");
      const known = now.checks.findIndex(({ name }) => name === event.name);
      const checks = known < 0 ? [...now.checks, result].slice(0, MOST_ATTEMPTS) : now.checks.with(known, result);
      return { checks, activity: clip(`checked: ${event.name}, ${event.ok ? "passed" : "failed"}`) };
    }
    case "places_judged": {
      const places = mergePlaces(now.places ?? [], event.places);
      return {
        places: places.length > 0 ? places : undefined,
        activity: `${places.length} of ${event.total} changed places judged`,
        count: now.count, // places are judged while something else is counted
      };
    }
    case "round_judged": {
      const rounds = [...(now.rounds ?? []), omit(event, "type", "seq", "at", "attempt")].slice(0, MOST_ATTEMPTS);
      return { rounds, activity: `round ${event.number}: ${event.killed} of ${event.viable} changes noticed` };
    }
    case "finished":
      return {
        ...(now.messages ? { messages: now.messages.map(kept) } : {}),
        attempts: endAttempts(now.attempts, event.at),
        verdict: event.verdict,
        reservations: event.reservations,
        reservationFacts: event.reservationFacts,
        places: event.places,
        confirmedTests: undefined,
        error: event.error,
        finishedAt: event.at,
        waitingFor: undefined,
        terminal: undefined,
        activity: undefined,
        dismissed: undefined,
      };
    case "confirmed":
      if (now.verdict === undefined) return {};
      return {
        confirmedTests: event.tests > 0 ? event.tests : undefined,
        verdict: event.tests > 0 ? "verified" : "unverified",
        reservations: event.tests > 0 ? [] : ["tests_changed"],
      };
    case "decided":
      return countDecision(now, event);
    case "amended": {
      const review = event.review ? { review: event.review } : {};
      // The checks ran on another tree.
      const outdated = now.verdict === "verified" || now.verdict === "checks_failed";
      const carried = Object.entries(event.carried ?? {});
      const conflicts = carried.filter(([, old]) => now.conflicts?.includes(old)).map(([hunk]) => hunk);
      return {
        head: event.head,
        ...openConflicts(conflicts),
        ...review,
        ...(outdated ? { verdict: "unverified" } : {}),
      };
    }
    case "discarded":
      return { worktree: undefined, rescueRef: event.rescueRef };
    case "dismissed":
      return { dismissed: true };
    case "superseded":
      return { supersededBy: event.by, conflicts: undefined, review: { ...now.review, pending: 0 } };
    case "agent_message":
    case "tool_result":
    case "plan":
    case "applied": // `decided` counts it
    case "undone":
    case "unknown":
      return {};
  }
}

/** What was found since replaces what was known about the same place. */
function mergePlaces(known: readonly ChangedPlace[], judged: readonly ChangedPlace[]): ChangedPlace[] {
  const places = new Map<string, ChangedPlace>();
  for (const place of [...known, ...judged]) {
    places.set(JSON.stringify([place.hunk, place.path, place.line, place.function]), place);
  }
  return [...places.values()].slice(0, MOST_PLACES);
}

/** What the agent did not get in this run is part of the next reply. */
function kept(message: SentMessage): SentMessage {
  return message.delivered === true ? message : { ...message, delivery: "kept" };
}

function replace<T extends object>(value: T, fields: Fields<T>): T {
  return Object.fromEntries(Object.entries({ ...value, ...fields }).filter(([, one]) => one !== undefined)) as T;
}

function omit<T extends object, K extends keyof T & string>(value: T, ...names: readonly K[]): Omit<T, K> {
  const omitted: readonly string[] = names;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !omitted.includes(name))) as Omit<T, K>;
}

function startAttempt(now: Delegation, event: Extract<Event, { type: "started" }>): Attempt[] {
  const { attempts } = now;
  const { attempt: number, delegator, tool, modelServer, model, reason, at } = event;
  if (attempts.some((attempt) => attempt.number === number)) {
    return changeAttempt(now, number, {
      delegator,
      tool,
      modelServer,
      model,
      reason,
      finishedAt: undefined,
      failure: undefined,
    });
  }
  if (attempts.length >= MOST_ATTEMPTS) return attempts;
  const startCommit = event.commit ?? attempts.at(-1)?.endCommit ?? now.base ?? "";
  const attempt: Attempt = { number, delegator, model, reason, startedAt: at, startCommit, usage: NO_USAGE };
  // An attempt without an event for its end has ended when the next one begins.
  return [...endAttempts(attempts, at), replace(attempt, { tool, modelServer })];
}

function changeAttempt({ attempts }: Delegation, number: number, fields: Fields<Attempt>): Attempt[] {
  return attempts.map((attempt) => (attempt.number === number ? replace(attempt, fields) : attempt));
}

function endAttempts(attempts: readonly Attempt[], at: string): Attempt[] {
  return attempts.map((attempt) => (attempt.finishedAt === undefined ? { ...attempt, finishedAt: at } : attempt));
}

function weakest(one: Sandbox, other: Sandbox): Sandbox {
  const weaker = (a: Confinement, b: Confinement): Confinement =>
    CONFINEMENTS.indexOf(a) <= CONFINEMENTS.indexOf(b) ? a : b;
  return { asked: weaker(one.asked, other.asked), reached: weaker(one.reached, other.reached) };
}

function total(attempts: readonly Attempt[]): Usage {
  const [only] = attempts;
  if (only && attempts.length === 1) return only.usage;
  const sum = { ...NO_USAGE };
  for (const name of Object.keys(sum) as (keyof Usage)[]) {
    const count = attempts.reduce((all, { usage }) => all + usage[name], 0);
    sum[name] = Math.min(count, LARGEST_COUNT);
  }
  return sum;
}

/** As the sidecar sends it: an unknown source is absent. */
function knownSource(source: Attempt["costSource"]): Attempt["costSource"] {
  return source === "unknown" ? undefined : (source ?? "reported");
}

function costs(attempts: readonly Attempt[]): Fields<Delegation> {
  const amounts = attempts.map(({ costUsd }) => costUsd).filter(isMoney);
  const exact = amounts.length === attempts.length && !attempts.some(({ costEstimated }) => costEstimated);
  return { costUsd: sumOfMoney(amounts), costKnown: attempts.length > 0 && exact };
}

const COUNTERS = { pending: "pending", accept: "accepted", reject: "rejected" } as const;

function countDecision(now: Delegation, event: Extract<Event, { type: "decided" }>): Fields<Delegation> {
  const { decision, hunk, was = "pending" } = event;
  const others = (now.conflicts ?? []).filter((one) => one !== hunk);
  const conflicts = openConflicts(event.conflict === true ? [...others, hunk] : others);
  if (decision === was) return conflicts;
  const review = { ...now.review };
  review[COUNTERS[decision]] += 1;
  if (was === "superseded") return { ...conflicts, review, supersededBy: undefined }; // these are not counted
  review[COUNTERS[was]] = Math.max(0, review[COUNTERS[was]] - 1);
  return { ...conflicts, review };
}

function openConflicts(hunks: readonly string[]): Fields<Delegation> {
  return { conflicts: hunks.length > 0 ? hunks.slice(0, MOST_ATTEMPTS) : undefined };
}

/** The last line of a piece of output, for a command of the user: the only sign of its progress. */
function saidLast(delegation: Delegation, text: string): string {
  if (delegation.attempts.at(-1)?.tool !== CUSTOM_COMMAND) return "answering";
  return (
    text
      .split("\n")
      .map(clip)
      .findLast((line) => line !== "") ?? "answering"
  );
}

/** One line of at most `ACTIVITY_CHARACTERS` code points. */
function clip(text: string): string {
  // A code point has at most two units: do not split a long text as a whole.
  const start = Array.from(text.slice(0, ACTIVITY_CHARACTERS * 8)).slice(0, ACTIVITY_CHARACTERS * 4);
  const words = start.join("").split(WHITE_SPACE);
  const line = Array.from(words.filter((word) => word !== "").join(" "));
  if (line.length <= ACTIVITY_CHARACTERS) return line.join("");
  return `${line.slice(0, ACTIVITY_CHARACTERS - 1).join("")}…`;
}
