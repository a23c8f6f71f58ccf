// The wire contract, generated from the method table of the sidecar. Do not edit by hand: run `make generate`.
// Unknown fields in parameters are an error; in results and events, ignore fields that are not listed here.

export const PROTOCOL_VERSION = 2;

/** What is done. `remedies/apply` does the first three; the others need a frontend: they ask, log in, or install. */
export const REMEDY_KINDS = [
  /** New worktrees link to `paths`, such as `node_modules`. */
  "link_folders",
  /** New worktrees get copies of `paths`, such as a version file that a build generates. */
  "copy_files",
  /** Each new worktree runs the one command of `commands`, which installs what the project needs. */
  "set_up_worktrees",
  /** Run `commands` in `folder`: they create the project's Python environment. They need the network. */
  "make_environment",
  /** Run `commands` in `folder`: they install what the project needs. They need the network. */
  "install_packages",
  /** Add one of the checks that `checks/list` proposes, or another. */
  "add_check",
  /** Show what trusting the workspace allows, and ask for it. */
  "trust",
  /** Install the agent `name`; `tools/list` says how. */
  "install_tool",
  /** Log in with the agent `name`; `tools/list` says how. */
  "log_in",
  /** Store a key for the model server `name`. */
  "set_key",
  /** Choose another model for the delegator `name`. */
  "choose_model",
  /** Add a delegator. */
  "add_delegator",
  /** Let waiting delegations start. */
  "resume_queue",
] as const;
export type RemedyKind = (typeof REMEDY_KINDS)[number];

/** The lifecycle state of a delegation. */
export const STATES = [
  /** Its base and worktree are being created. */
  "preparing",
  /** It waits in the queue; no process runs it. */
  "queued",
  /** An attempt is running. */
  "running",
  /** An attempt asked the user for permission and waits for the answer. */
  "waiting",
  /** No agent process is running; the result is being checked. */
  "checking",
  /** It has a verdict. Nothing runs; decisions may still be recorded. */
  "finished",
] as const;
export type State = (typeof STATES)[number];

/** Where an entry is configured; later scopes override earlier ones. */
export const SCOPES = [
  /** Shipped with Understudy. */
  "builtin",
  /** The user's configuration folder. */
  "user",
  /** The repository's `.understudy` folder; used only while the workspace is trusted. */
  "workspace",
] as const;
export type Scope = (typeof SCOPES)[number];

/** Why a delegator cannot work, where another one may. Every other failure is about the task, the request or the user, and would happen on any delegator or must not be tried again: refused content, a spent budget, a cancel, a missing permission, failed checks. */
export const FAILURE_CLASSS = [
  /** Its key or login is refused. */
  "auth",
  /** Its account has no credit left. */
  "quota",
  /** It gets too many requests. */
  "rate_limit",
  /** Its server is busy, fails, or cannot be reached. */
  "overload",
  /** Its server does not know the model. */
  "model_missing",
  /** Its program is not installed. */
  "tool_missing",
  /** Its program or its stream ended without a result, or with one that cannot be read. */
  "crash",
  /** The prompt does not fit its model's context window. */
  "too_long",
  /** Nothing happened within a time limit. */
  "stall",
] as const;
export type FailureClass = (typeof FAILURE_CLASSS)[number];

/** Whether a kind of failure keeps a delegator from being tried. `closed` → `open`: it failed so often one after another, or its provider said when to try again. `open` → `half_open`: the pause is over, and one attempt probes whether it works again. `half_open` → `open`: the probe failed, and the next pause is twice as long; or it showed nothing. Any → `closed`: an attempt succeeded, or the user reset it. */
export const CIRCUIT_STATES = [
  /** It is tried. */
  "closed",
  /** It is paused; after `until`, the next attempt probes it. */
  "open",
  /** One attempt probes it; others do not try it. */
  "half_open",
] as const;
export type CircuitState = (typeof CIRCUIT_STATES)[number];

/** The closed list of error kinds; the value is the one on the wire. */
export const ERROR_KINDS = [
  /** A request's parameters have the wrong shape or contradict each other. */
  "invalid_params",
  /** No method of this name is served. */
  "unknown_method",
  /** No delegator of this name is configured; `names` lists similar ones. */
  "unknown_delegator",
  /** The delegator stands for an agent on another service, which cannot be started here. */
  "remote_only_delegator",
  /** No model server of this name is configured. */
  "unknown_model_server",
  /** No agent CLI of this name is known. */
  "unknown_tool",
  /** No recipe of this name exists. */
  "unknown_recipe",
  /** No check of this name is configured. */
  "unknown_check",
  /** No schedule of this name is configured. */
  "unknown_schedule",
  /** No receiver of notifications of this name is configured. */
  "unknown_notification",
  /** No delegation has this ID. */
  "unknown_delegation",
  /** No group has this ID. */
  "unknown_group",
  /** A configuration file or value is invalid. */
  "config_invalid",
  /** The file was written by hand, so Understudy does not rewrite it. */
  "not_editable",
  /** Another process changed or answered it first; read the current state and retry. */
  "conflict",
  /** The name is taken. */
  "already_exists",
  /** No file of this workspace may run before the user trusts it. */
  "untrusted_workspace",
  /** The state to start from cannot be read. */
  "base_unavailable",
  /** A worktree cannot be created from this folder. */
  "isolation_unavailable",
  /** A required program is not installed. */
  "tool_missing",
  /** The project's environment lacks what its code or its tests import. */
  "environment",
  /** A program ended with an error. */
  "tool_crashed",
  /** A program exited without reporting that it had finished. */
  "tool_no_result",
  /** The server refused the key. */
  "auth_failed",
  /** The account behind the key has no credit left. */
  "quota_exhausted",
  /** Too many requests; try again later. */
  "rate_limited",
  /** The server is busy or failing, or this machine is out of memory, files or processes; try again later. */
  "overloaded",
  /** The server refused the request as malformed. */
  "bad_request",
  /** The prompt does not fit the model's context window. */
  "context_too_long",
  /** The model or its filter refused the content. */
  "content_refused",
  /** The server does not know the model. */
  "model_not_found",
  /** The server could not be reached. */
  "connection_failed",
  /** A time limit passed. */
  "timed_out",
  /** Nothing happened for longer than the idle limit. */
  "stalled",
  /** The stream ended before its end was announced. */
  "stream_truncated",
  /** The model stopped at its output limit. */
  "output_truncated",
  /** It finished successfully without a result. */
  "empty_output",
  /** The output cannot be parsed. */
  "malformed_output",
  /** A limit on tokens, turns or money was reached. */
  "budget_exhausted",
  /** A program used more memory or processes than allowed, or wrote a larger file; it was ended. */
  "resource_limit",
  /** A task that it comes after in its group did not succeed, so it did not start. */
  "dependency_failed",
  /** The user cancelled it. */
  "cancelled",
  /** Its worker process died. */
  "interrupted",
  /** The operating system or a policy forbids it. */
  "permission_denied",
  /** A key may not be used here, or text may not leave this machine. */
  "secret_withheld",
  /** A path leads outside the folder it must stay in. */
  "path_escape",
  /** The file to be written already exists. */
  "target_exists",
  /** The files together are above the limit. */
  "input_too_large",
  /** One file is above the limit. */
  "file_too_large",
  /** There is nothing to work on. */
  "input_empty",
  /** A change conflicts with the current files. */
  "merge_conflict",
  /** Understudy does not run on this operating system. */
  "unsupported_platform",
  /** The state folder cannot be used. */
  "state_unavailable",
  /** The disk under the state folder is full. */
  "disk_full",
  /** A bug in Understudy; please report it. */
  "internal",
] as const;
export type ErrorKind = (typeof ERROR_KINDS)[number];

/** What a failure affects, and so what may still work. */
export const ERROR_SCOPES = [
  /** Only this request; another one may succeed at once. */
  "request",
  /** Every request to this model on this server. */
  "model",
  /** Every request with this key or login. */
  "account",
  /** Every use of this agent CLI on this machine. */
  "tool",
] as const;
export type ErrorScope = (typeof ERROR_SCOPES)[number];

/** How a finished delegation ended: the first member whose rule applies (`judge.verdict_rules`). */
export const VERDICTS = [
  /** A text recipe answered. */
  "answered",
  /** At least one required check passed on exactly this result, and there is no reservation. */
  "verified",
  /** There is a result, and a reason not to call it verified. */
  "unverified",
  /** A required check failed twice on the result and passes on the base. */
  "checks_failed",
  /** The agent finished without changing anything. */
  "no_changes",
  /** The last attempt failed; partial work is kept. */
  "failed",
  /** A user stopped it; partial work is kept. */
  "cancelled",
  /** A time limit was reached; partial work is kept. */
  "timed_out",
  /** A limit on tokens, turns or money was reached; partial work is kept. */
  "budget_exhausted",
  /** Its worker process died; partial work is kept. */
  "interrupted",
] as const;
export type Verdict = (typeof VERDICTS)[number];

/** A reason why a result is not verified. The list is closed. */
export const RESERVATIONS = [
  /** No required check ran. */
  "no_checks",
  /** The result was edited after its checks ran. */
  "checks_outdated",
  /** Tests ran, and nothing shows that they can fail. */
  "not_mutation_tested",
  /** A check, or a new test in another order, time zone or hash seed, failed once and passed once on the same tree. */
  "flaky",
  /** A check fails on the result and failed before the work began. */
  "fails_on_base",
  /** A check passes only with changed files that decide what it does, or changed code behaves otherwise in tests. */
  "check_changed",
  /** Earlier tests pass only with this result's edits, notice less because of them, or no longer run. */
  "tests_changed",
  /** Earlier tests cannot be compiled or loaded with this result. */
  "base_tests_do_not_build",
  /** The result changes files that the recipe does not write, removes tests, or makes earlier tests notice less. */
  "outside_scope",
  /** A check loaded files of the user's checkout instead of the result. */
  "loaded_checkout",
  /** After a run of a check, tracked files of its worktree differed from the commit. */
  "tree_changed",
  /** No new test fails on any of many small changes of the code under test. */
  "no_mutant_killed",
  /** The tests notice too few of the small changes on lines that they execute. */
  "few_mutants_killed",
  /** The tests execute only a small part of the code under test. */
  "little_executed",
  /** No test notices some of the changed places. */
  "change_not_tested",
  /** No test fails on the code of the base and passes on the result's, although the recipe repairs something. */
  "problem_not_shown",
  /** A test fails when only a comment, or a value that nothing reads, is added to the code. */
  "looks_at_source",
  /** Files outside the worktree changed while the agent or a check ran, and no editor reported that it saved them. */
  "outside_changed",
  /** The agent ran in the user's checkout, without isolation, as `launch.use_worktree` says. */
  "not_isolated",
  /** The journal contained bytes that its worker did not write, or a check's report and its run disagree. */
  "tampered",
] as const;
export type Reservation = (typeof RESERVATIONS)[number];

/** What is known about one changed place. */
export const PLACE_EVIDENCES = [
  /** A test fails when it is undone, or when a small change is made in it. */
  "noticed",
  /** Nothing that runs changed: comments, documentation, the form of the code. */
  "same",
  /** It belongs to the tests, which have rules of their own. */
  "new_test",
  /** It runs, and no test fails when it is undone or changed. */
  "unnoticed",
  /** No test runs it. */
  "unexecuted",
  /** No check looks at this file, or the time was over before this place was tried. */
  "unlooked",
] as const;
export type PlaceEvidence = (typeof PLACE_EVIDENCES)[number];

/** The result of one mutant, in the words of the mutation-testing report schema that Stryker's viewers read. */
export const MUTANT_STATUSS = [
  /** A test that passed on the unchanged code failed. */
  "Killed",
  /** All tests that execute the line passed. The mutant may be equivalent to the code. */
  "Survived",
  /** The tests took far longer than on the unchanged code, which counts as killed. */
  "Timeout",
  /** No test executes the line, so none was run. */
  "NoCoverage",
  /** The mutated code could not be built, loaded or collected: it does not count. */
  "CompileError",
  /** The user dismissed it: it does not count. */
  "Ignored",
  /** It was not judged: the time was over, or its process ended early. */
  "Pending",
] as const;
export type MutantStatus = (typeof MUTANT_STATUSS)[number];

/** Isolation of a process tree, weakest first. */
export const CONFINEMENTS = [
  /** The processes have the user's permissions, and may outlive the run if owner and guardian are killed together. */
  "none",
  /** A PID namespace: no process outlives the run, but all of them have the user's permissions. */
  "namespace",
  /** The kernel limits which files and network addresses the processes can use. */
  "landlock",
  /** The processes see only the files and the network that were given to them. */
  "bubblewrap",
  /** The processes run in a container with a file system of its own. */
  "container",
] as const;
export type Confinement = (typeof CONFINEMENTS)[number];

/** The review state of a hunk. */
export const HUNK_STATES = [
  /** Not decided. */
  "pending",
  /** Merged into the user's files. */
  "accepted",
  /** Rejected. */
  "rejected",
  /** Continued by a follow-up. */
  "superseded",
] as const;
export type HunkState = (typeof HUNK_STATES)[number];

/** The state of the instructions in one file. */
export const INSTRUCTION_STATES = [
  /** There are none. */
  "absent",
  /** They are there, in the current version. */
  "installed",
  /** They are there, in another version. */
  "outdated",
  /** Someone has changed them: they are neither replaced nor removed unless forced. */
  "edited",
  /** A skill of the same name was not written by Understudy: it is never replaced. */
  "foreign",
  /** The file cannot be read; see `problem`. */
  "unreadable",
] as const;
export type InstructionState = (typeof INSTRUCTION_STATES)[number];

/** The state of our entry in one client. */
export const REGISTRATION_STATES = [
  /** There is none, or the client that would list it was not found. */
  "absent",
  /** It is there, and starts this Understudy. */
  "registered",
  /** It is there, and starts another Understudy, or other tools. */
  "outdated",
  /** An entry of this name does not start Understudy: it is neither replaced nor removed. */
  "foreign",
  /** The client did not list it (see `problem`), or its file has the name, but cannot be parsed. */
  "unknown",
] as const;
export type RegistrationState = (typeof REGISTRATION_STATES)[number];

/** What a verdict means. */
export const VERDICT_MEANINGS: Record<Verdict, string> = {
  "answered": "the model answered",
  "verified": "a required check passed on exactly this result, and there is no reservation",
  "unverified": "there is a result, but check it before you rely on it",
  "checks_failed": "a required check fails on the result and passes without it",
  "no_changes": "the agent finished without changing anything",
  "failed": "an error ended the work",
  "cancelled": "stopped on request",
  "timed_out": "a time limit was reached",
  "budget_exhausted": "a limit on tokens, turns or money was reached",
  "interrupted": "its worker process died"
};

/** Why a result is not verified, and what to do about it on the command line. */
export const RESERVATION_REASONS: Record<Reservation, { readonly reason: string; readonly advice: string }> = {
  "no_checks": {
    "reason": "no required check ran",
    "advice": "let one run, or add one (understudy checks add); then judge this result again: understudy check ID"
  },
  "checks_outdated": {
    "reason": "the result was edited after the checks ran",
    "advice": "run them again: understudy check ID"
  },
  "not_mutation_tested": {
    "reason": "nothing shows that the tests can fail",
    "advice": "read the tests: does each one assert something?"
  },
  "flaky": {
    "reason": "a check failed once and passed once on the same tree",
    "advice": "run `understudy check ID` again, and look for what is random, or depends on order, time zone or date"
  },
  "fails_on_base": {
    "reason": "a check fails, and failed before the work began",
    "advice": "fix it first, then delegate again"
  },
  "check_changed": {
    "reason": "a check passes only with changed files that decide what it does, or changed code behaves otherwise in tests",
    "advice": "read those files in the diff first"
  },
  "tests_changed": {
    "reason": "earlier tests pass only with this result's edits, or no longer run",
    "advice": "compare the changed tests with what you asked for; to confirm them, accept all: `understudy accept ID PATH`"
  },
  "base_tests_do_not_build": {
    "reason": "earlier tests cannot be loaded with this result",
    "advice": "the usual cause is a changed name or signature: did you ask for that change?"
  },
  "outside_scope": {
    "reason": "the result changes files that this recipe does not write, removes tests, or makes earlier tests notice less",
    "advice": "look at them in the diff"
  },
  "loaded_checkout": {
    "reason": "a check loaded files of your checkout instead of the result",
    "advice": "the files are listed below; the usual cause is an absolute path in the environment"
  },
  "tree_changed": {
    "reason": "tracked files changed while a check ran",
    "advice": "the files are listed below: let the check write elsewhere, and look for a program that edits the worktree"
  },
  "no_mutant_killed": {
    "reason": "no new test notices any wrong value",
    "advice": "these tests prove nothing: ask for tests that compare results with what they should be"
  },
  "few_mutants_killed": {
    "reason": "the tests notice few of the small changes that were made to the code",
    "advice": "read the changes that they missed in `understudy show ID`, and ask for tests that notice them"
  },
  "little_executed": {
    "reason": "the tests execute only a small part of the code under test",
    "advice": "ask for tests of the rest, or accept them as a beginning"
  },
  "change_not_tested": {
    "reason": "no test notices some of the changed places",
    "advice": "take the others with `understudy accept ID --verified`; read these, or ask for tests of them"
  },
  "problem_not_shown": {
    "reason": "no test fails on the code as it was and passes on the result",
    "advice": "ask for a test that fails without the fix, or try it yourself before you rely on it"
  },
  "looks_at_source": {
    "reason": "a test fails when only the text of the code changes, not what it does",
    "advice": "it looks at the source instead of what the code does: read it before you rely on it"
  },
  "outside_changed": {
    "reason": "files outside the worktree changed while the agent or a check ran",
    "advice": "you or the agent changed them: `understudy watch ID` names them, and how to see what a file was before"
  },
  "not_isolated": {
    "reason": "the agent ran in your checkout, without isolation",
    "advice": "its changes are in your files: read the diff, which may have your own, too; to undo all: understudy undo ID"
  },
  "tampered": {
    "reason": "a report was forged: the journal's, or that of a check",
    "advice": "`understudy watch ID` says which and what disagreed: read the diff with care, then delegate again"
  }
};

/** The state transitions of a delegation: state → the states that may follow. */
export const STATE_TRANSITIONS: Record<State, readonly State[]> = {
  "preparing": [
    "queued",
    "running",
    "finished"
  ],
  "queued": [
    "preparing",
    "running",
    "finished"
  ],
  "running": [
    "running",
    "waiting",
    "checking",
    "finished"
  ],
  "waiting": [
    "running",
    "checking",
    "finished"
  ],
  "checking": [
    "running",
    "checking",
    "finished"
  ],
  "finished": [
    "checking",
    "finished"
  ]
};

/** The state after an event, by the event's `type`; other events do not change the state. */
export const STATE_AFTER_EVENT: Partial<Record<string, State>> = {
  "queued": "queued",
  "started": "running",
  "permission": "waiting",
  "permission_answered": "running",
  "check_started": "checking",
  "finished": "finished"
};

/** The protocol of a model server that declares none. */
export const DEFAULT_PROTOCOL: string = "openai";

/** No parameters. */
export type NoParams = Record<string, never>;

/** The version of Understudy and of its protocol. */
export interface VersionResult {
  version: string;
  protocolVersion: number;
}

/** What is looked at: a workspace (absent: the caller's folder), and the names of checks (absent: all of them). */
export interface DoctorParams {
  workspace?: string | null;
  only?: string[] | null;
}

/** The state of this installation. */
export interface DoctorResult {
  checks: DoctorCheck[];
}

/** One finding of the diagnostics. */
export interface DoctorCheck {
  name: string;
  ok: boolean;
  message: string;
  hint?: string;
  /** The hint for a button. */
  remedy?: Remedy;
}

/** One thing to do, after which what failed can be tried again. */
export interface Remedy {
  kind: RemedyKind;
  /** Relative to the workspace. */
  paths?: string[];
  /** Argument vectors, run one after the other until one fails. */
  commands?: string[][];
  /** Where they run, relative to the workspace. */
  folder?: string;
  name?: string;
}

/** The workspace whose configuration is returned; absent: only the user's configuration. */
export interface WorkspaceParams {
  workspace?: string | null;
}

/** What Understudy is, what it is doing, and what waits for the user. */
export interface StatusResult {
  version: string;
  protocolVersion: number;
  /** Absolute path of the workspace; absent without one. */
  workspace?: string;
  trusted?: boolean;
  /** Configured delegators that can be started, without those built in. */
  delegators: number;
  /** Names of those that have errors. */
  notReady: string[];
  /** Names of those that failed again and again, and whose fallbacks are tried instead. */
  paused?: string[];
  defaultDelegator?: string;
  /** The model of the default delegator, if it names one. */
  defaultModel?: string;
  /** The host of its model server, if it has one. */
  defaultHost?: string;
  /** The key of that server, if it needs one. */
  defaultKey?: "set" | "missing" | "keyring";
  /** Errors in the configuration. */
  problems: number;
  /** State → number of delegations in it, in all workspaces; finished ones are not counted. */
  states: Record<string, number>;
  /** Ids of delegations whose agents wait for an answer. */
  questions: string[];
  /** Finished delegations with pending hunks that no follow-up has taken over. */
  toReview: number;
  /** The beginning of the user's day. */
  spentSince: string;
  /** Totals of the attempts since then. */
  spent: LedgerTotals;
  /** What all work may cost in one day, if that is limited. */
  perDay?: DayBudget;
}

/** Sums over attempts that have ended. */
export interface LedgerTotals {
  attempts: number;
  delegations: number;
  /** Verdict, or the kind of the error for an attempt that failed → number of attempts. */
  outcomes: Record<string, number>;
  usage: Usage;
  /** Sum of the known costs, a decimal number as text. */
  costUsd: string;
  /** Attempts whose cost was computed from estimated tokens. */
  costsEstimated: number;
  /** Attempts whose cost was computed from prices instead of reported. */
  costsComputed?: number;
  /** Attempts without a known cost; they add nothing to the sum. */
  costsUnknown: number;
  /** Sum of the durations. */
  seconds: number;
  medianSeconds: number;
  /** Nine of ten attempts took at most this long. */
  p90Seconds: number;
  /** Attempts after which another delegator took over. */
  handovers?: number;
  /** The sum of the costs, also those of attempts that failed, for each verified result; absent without a verified result or a known cost. */
  verifiedUsd?: string;
  /** What the same tokens would cost at the prices of the request. */
  comparedUsd?: string;
}

/** Tokens and turns; the input counts include cached tokens. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  turns: number;
  toolCalls: number;
}

/** What work may cost in one day, by the clock of the machine; nothing new begins when it is spent. */
export interface DayBudget {
  /** In USD: `"5.00"`. */
  usd?: string | null;
  /** Read and written. */
  tokens?: number | null;
}

/** Do something about a problem, in the configuration of a workspace. */
export interface RemedyParams {
  /** As it was reported. */
  remedy: Remedy;
  workspace?: string | null;
}

/** An empty result. */
export interface EmptyResult {
}

/** Write a commented `config.toml`; a file that exists is never replaced. */
export interface StarterParams {
  scope?: "user" | "workspace";
  workspace?: string | null;
  /** Paths of the workspace that worktrees link to. These two are not written as comments. */
  link?: string[];
  /** The command that sets up each worktree. */
  setup?: string[];
}

/** The file that was written. */
export interface StarterResult {
  location: Location;
  /** Titles of the test runners that the workspace's files show; the file has them as comments. */
  checks: string[];
  /** Names of the installed agent CLIs that can be driven; the file has them as comments. */
  tools: string[];
}

/** A range in a file, the file as a URI. */
export interface Location {
  uri: string;
  range: Range;
}

/** From `start` up to, not including, `end`. */
export interface Range {
  start: Position;
  end: Position;
}

/** A place in a text: zero-based line, and character in UTF-16 code units (LSP's own meaning). */
export interface Position {
  line: number;
  character: number;
}

/** Import the configuration of another delegation tool; nothing that exists is replaced. */
export interface ImportParams {
  source: "agent-delegate" | "delegate-local" | "agent-delegator" | "sideagent" | "operator";
  scope?: "user" | "workspace";
  /** The file to read (URI or absolute path); absent: the tool's usual places. */
  path?: string | null;
  /** The workspace whose files of the tool are read, too. */
  workspace?: string | null;
  /** Return what would be written, and write nothing. */
  dryRun?: boolean;
  /** `revision` of a dry run: if something else would be written now, the request is a `conflict`. */
  revision?: string | null;
  /** Names of model servers whose keys, found in plain text, are stored as `modelServers/setKey` does. */
  storeKeys?: string[];
}

/** What an import wrote, or would write. */
export interface ImportResult {
  /** Absolute paths of the files that were read; empty if only environment variables were. */
  read: string[];
  files: ImportedFile[];
  unchanged: ImportedEntry[];
  /** The files as a unified diff. */
  diff: string;
  notCarriedOver: NotCarriedOver[];
  keys: ImportedKey[];
  /** Changes whenever something else would be written. */
  revision: string;
  /** Whether this request changed the configuration. */
  written: boolean;
}

/** A file of the user's configuration that was written, or would be. */
export interface ImportedFile {
  kind: "modelServer" | "delegator" | "profile" | "default";
  name: string;
  location: Location;
}

/** An entry that exists already, with the same values. */
export interface ImportedEntry {
  kind: "modelServer" | "delegator" | "profile" | "default";
  name: string;
}

/** A setting that is not imported, or not under its own name. */
export interface NotCarriedOver {
  /** Its name with those of the tables around it (`profiles.groq.timeout`), or of an environment variable. */
  setting: string;
  /** Why, and what to do instead, as sentences. */
  reason: string;
  /** Absent for an environment variable of the sidecar itself. */
  location?: Location;
}

/** A key in plain text, which is never copied into a configuration file, and never returned. */
export interface ImportedKey {
  /** The imported model server that needs it. */
  modelServer: string;
  setting: string;
  location?: Location;
  /** Whether this request stored it. */
  stored: boolean;
}

/** List agent CLIs; `refresh` queries their versions again. */
export interface ToolsParams {
  refresh?: boolean;
  workspace?: string | null;
}

/** Every supported agent CLI, installed or not. */
export interface ToolsResult {
  tools: ToolEntry[];
  /** The agent loops of Understudy itself; the protocol of the model server decides which one runs a delegator. */
  backends: BackendEntry[];
  /** Problems of the configuration, including files that define a tool and cannot be read. */
  problems?: Problem[];
}

/** An agent CLI that Understudy knows, found on this machine or not. */
export interface ToolEntry {
  name: string;
  displayName: string;
  /** What it does, unless its name says it. */
  description?: string;
  found: boolean;
  path?: string;
  /** How to install it and log in; absent if it is part of Understudy or named by the delegator. */
  install?: Install;
  /** Where the file is that defines it; absent: Understudy knows it. */
  scope?: Scope;
  /** The file that defines it. */
  location?: Location;
  /** The `launch.command` that runs it as a custom command; absent if `runnable`, and if none is known. */
  command?: string[];
  version?: string;
  /** Whether this version of Understudy has a runner for it. */
  runnable: boolean;
  modes: string[];
  /** The options of its delegators; absent if Understudy has no runner for it. */
  supports?: SupportedOptions;
  /** The options of its delegators with the mode `acp`; absent if it does not speak the Agent Client Protocol. */
  supportsAcp?: SupportedOptions;
  /** The options of its delegators with the mode `tmux`; absent if it does not run in a terminal. */
  supportsTmux?: SupportedOptions;
  problems: Problem[];
}

/** How a user installs an agent CLI and logs in. */
export interface Install {
  /** What it is, as a sentence. */
  about: string;
  /** The official command to install it, as a line for a terminal; Understudy never runs it. */
  command: string;
  /** How to log in afterwards, as a sentence. */
  login: string;
  /** The line for a terminal that starts the login. */
  loginCommand?: string;
  /** The page that explains how to install it. */
  url: string;
}

/** The options of a delegator that have an effect; all others are refused, never ignored. */
export interface SupportedOptions {
  /** Fields of `Delegator` itself: `model`, `mode`. */
  delegator: SupportedOption[];
  /** Fields of `Launch`, in the order in which a form asks for them. */
  launch: SupportedOption[];
  /** Fields of `Limits`. */
  limits: SupportedOption[];
  /** Well-known `modelProperties`; empty: `modelProperties` has no effect. A tool takes only these; a model server gets all others unchanged. */
  properties: SupportedOption[];
  /** How it can be driven: `headless`, `acp`. */
  modes: string[];
  /** The allowed values of `launch.permissionMode`. */
  permissionModes: OptionValue[];
  /** Protocols of the model servers that it can use, the default first; empty: it cannot use one. */
  protocols: string[];
  /** Whether it works only with a model server; then `model` is required too. */
  needsModelServer: boolean;
  /** Whether a reply continues the session of the previous attempt. */
  sessions: boolean;
  /** When it gets a message that the user sends while it works. */
  messages: "during_turn" | "after_turn" | "next_attempt" | "never";
  /** Kinds of recipes that it can run. */
  returns: ("text" | "file" | "tree")[];
  /** Whether it can run only recipes that are judged by new tests. */
  onlyNewTests?: boolean;
}

/** A field that can be set and has an effect, with everything that a form needs to ask for it. */
export interface SupportedOption {
  /** The field of `Delegator`, `Launch`, `Limits` or `modelProperties`. */
  name: string;
  /** Its label. */
  title: string;
  description: string;
  /** A decimal is sent as a string; a list is a list of strings. */
  type: "boolean" | "integer" | "number" | "string" | "decimal" | "list";
  /** The allowed values; absent: any value of its type. */
  values?: OptionValue[];
  /** The value that applies if it is absent, where there is one. */
  default?: string;
  /** An example. */
  placeholder?: string;
  /** Whether every delegator needs it. */
  required?: boolean;
  minimum?: number;
  /** The value must be above this. */
  exclusiveMinimum?: number;
  maximum?: number;
  /** Words that are replaced in its elements, each with what replaces it; others like them are refused. */
  slots?: OptionValue[];
  /** Fields of `Launch` and the values that this option requires to have an effect. */
  onlyWith?: Record<string, string>;
  /** A word that an argument of `launch.command` must contain for this option to have an effect. */
  needsSlot?: string;
  /** Whether one delegation can change it: with the field of this name in `LaunchOverride`, or, for an option in `properties` or `limits`, in its `modelProperties` or `limits`. */
  perDelegation?: boolean;
}

/** A value that an option may have. */
export interface OptionValue {
  value: string;
  /** Its label in lists. */
  title: string;
  description?: string;
  /** Whether the tool does everything without asking. */
  unrestricted?: boolean;
}

/** A problem of a configuration, with its location. */
export interface Problem {
  severity: "error" | "warning" | "information";
  message: string;
  hint?: string;
  location?: Location;
}

/** A backend of our own loop, which runs delegators with a model server and no tool. */
export interface BackendEntry {
  name: string;
  title: string;
  /** It runs the delegators whose model server uses one of these protocols. */
  protocols: string[];
  supports: SupportedOptions;
}

/** Write a commented definition of an agent CLI that Understudy does not know. */
export interface ToolCreateParams {
  /** The value of `tool` in its delegators. */
  name: string;
  /** Begin with the definition of a tool that Understudy does not drive: `crush`, `cursor` or `goose`. */
  like?: string | null;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** The file that defines an agent CLI. */
export interface ToolFile {
  location: Location;
}

/** Trust a workspace or revoke its trust; without `trusted`, only return whether it is trusted. */
export interface TrustParams {
  /** URI or absolute path of the workspace, or of a file or folder in it. */
  workspace: string;
  trusted?: boolean | null;
  /** `digest` of the result that was shown; if it has changed since, nothing is recorded (`conflict`). */
  digest?: string | null;
}

/** Whether the workspace is trusted, and the effects of trusting it. */
export interface TrustResult {
  /** Absolute path of the workspace: the top level of its repository if it has one. */
  workspace: string;
  trusted: boolean;
  /** What trusting the workspace would run or allow, as text. */
  effects: string[];
  /** What changed since the workspace was trusted. */
  changed: string[];
  /** Digest of the listed effects; pass it with `trusted`. */
  digest: string;
  /** The user declined to trust the workspace with these effects. */
  declined?: boolean;
}

/** The file to which the recipes must apply; absent: list all recipes of the user. */
export interface RecipesParams {
  uri?: string | null;
}

/** Recipes, shipped ones first. */
export interface RecipesResult {
  recipes: Recipe[];
  problems: Problem[];
}

/** A reusable task. */
export interface Recipe {
  name: string;
  title: string;
  returns: "text" | "file" | "tree";
  writes?: string[];
  checks?: string[];
  delegator?: string;
  /** How often the agent is asked again: for a repair while a required check fails, then for tests that notice more. Absent: a model without an agent CLI is asked once for a repair. */
  rounds?: number;
  appliesTo: AppliesTo;
  /** What it cannot do without: a `file` to work on, which a request must name; a `task`, which frontends ask for. */
  needs?: ("file" | "task")[];
  /** `new_tests`: by the tests that the result adds, and by which small changes of the code they notice. `failing_test`: by the checks, and by a test that fails on the code of the base and passes on the result's. */
  judgedBy?: "checks" | "new_tests" | "failing_test";
  /** What its result changes. Only `code` is sent back because of a check that failed before the work, too. */
  changes?: "code" | "documentation" | "tests";
  /** How editors offer it; absent: by its title. */
  action?: RecipeAction;
  /** Its place in lists: smaller ones first. The user's own come before the built-in ones. */
  order?: number;
  scope: Scope;
  location?: Location;
  /** The instructions, in Markdown; the user's instructions and the files are appended. */
  prompt?: string;
}

/** Where a recipe is offered. */
export interface AppliesTo {
  /** Language IDs as editors use them (`python`, `typescriptreact`); absent: every language. */
  languages?: string[] | null;
  /** What must be at the cursor: a whole file, a selection, a diagnostic. */
  on: ("file" | "selection" | "diagnostic")[];
}

/** How a recipe reads in an editor's menu of actions. */
export interface RecipeAction {
  /** The words between "Delegate" and what it is about: `tests for`. Absent: the title of the recipe. */
  brings?: string | null;
  /** What the menu says instead when a model server answers and nothing is delegated: `Explain`. */
  answers?: string | null;
  /** The task when the user selected lines that contain it: `The selected lines describe the task.` */
  selection?: string | null;
  /** What it has an action of its own for; for everything else it is among the choices behind "Delegate…". */
  listedOn?: ("file" | "selection" | "diagnostic")[] | null;
}

/** The agents that a delegation may name, and the problems of their files. */
export interface AgentsResult {
  agents: AgentEntry[];
  problems: Problem[];
}

/** An agent that a delegation may name in `agent`. */
export interface AgentEntry {
  name: string;
  description?: string;
  /** A file of a folder `agents`, or the `SKILL.md` of a folder in `skills`. */
  kind: "agent" | "skill";
  /** Its tier: of the workspace, of the user, or built in. The nearer one wins. */
  scope: Scope;
  /** Where it is written. */
  location: Location;
  /** The model that it asks for; one named at the start wins. */
  model?: string;
  /** The only tools that it may use; absent: all. */
  tools?: string[];
  /** Tools that it may not use. */
  disallowedTools?: string[];
  /** Fields of its front matter that have an effect. */
  honoured: string[];
  /** Fields of its front matter that have none. */
  ignored?: IgnoredField[];
  /** Files with the same name that it takes precedence over, the nearest first. */
  hides?: Location[];
  problems?: Problem[];
  /** Its instructions, in Markdown. */
  prompt?: string;
}

/** A field of the front matter that has no effect. */
export interface IgnoredField {
  name: string;
  /** Why, as a sentence. */
  reason: string;
}

/** Every delegator, and the problems of the configuration. */
export interface DelegatorsResult {
  delegators: DelegatorEntry[];
  problems: Problem[];
  /** Recipe → the delegator that a start takes now if it names none. A recipe that could not start is absent. */
  defaults?: Record<string, string>;
}

/** A delegator with its scope, location and state. */
export interface DelegatorEntry {
  delegator: Delegator;
  scope: Scope;
  /** Changes with every change of its file; pass it to `update` and `delete` to detect conflicts. */
  revision: string;
  editable: boolean;
  location?: Location;
  /** The display name of its tool; absent without a tool, and for an unknown tool. */
  toolDisplayName?: string;
  /** Whether its agent reads a task's text and replies; one that works without a model does not. */
  followsInstructions?: boolean;
  /** Whether it is the default for everything that no other default covers. */
  isDefault?: boolean;
  /** The recipes whose default it is. */
  defaultFor?: string[];
  /** The host of its model server, with the port if its address has one; absent without a model server. */
  host?: string;
  /** The key of its model server; absent if that needs none. */
  key?: "set" | "missing" | "keyring";
  state: EntryState;
}

/** A named pairing of an agent CLI, or of our own loop and a model server, with a model and launch options. */
export interface Delegator {
  /** Its name in requests, defaults and lists, and the name of its file. */
  name: string;
  /** Name to display in lists. */
  displayName?: string | null;
  /** Agent CLI; absent: our own loop on `model_server`. */
  tool?: string | null;
  /** How the tool is driven: without a terminal (default), over the Agent Client Protocol, or in a tmux pane. */
  mode?: "headless" | "acp" | "tmux" | null;
  /** The model server of our own loop, or of a tool that can use one. */
  modelServer?: string | null;
  /** Model ID of the tool or the server; empty: the tool's default. */
  model?: string;
  /** Properties of the model: sent unchanged with each request to a model server (`temperature`, …), or those of the tool (`model_reasoning_effort`). */
  modelProperties?: Record<string, unknown> | null;
  /** How the tool is started. */
  launch?: Launch | null;
  /** Environment variables of the tool's process; a key is given as a reference, never as a value. */
  env?: Record<string, string | EnvReference> | null;
  /** Limits of each delegation; the configuration supplies those that are absent here. */
  limits?: Limits | null;
  /** Rules for its permission requests; the first that matches decides, and without one the user is asked. */
  permissions?: PermissionRule[] | null;
  /** What its work may cost in one day, all together. */
  perDay?: DayBudget | null;
  /** A word for the login or the key that it uses, where others of its tool or server use another one. Delegators with one account are paused together when its login is refused or its credit is spent. */
  account?: string | null;
  /** `local`: everything that is sent stays on this machine; if that is impossible, the delegator fails. */
  locality?: "local" | "remote" | null;
  /** Delegators that take over, in this order, each in a fresh worktree, when this one cannot work: its login, quota, rate limit, server, model or program fails, or it stalls. Their own lists do not count. */
  fallback?: string[] | null;
  /** Words by which routes select it, such as `cheap`. */
  tags?: string[] | null;
  /** The candidates of a route: one of them does the work, and the others take over in their order. */
  route?: Route | null;
  /** The agent on another service that this delegator stands for. It cannot be started here; `tool` and `model` are then only what its profile says. */
  remoteAgent?: RemoteAgent | null;
  /** Values for other programs, never interpreted. */
  extensions?: Record<string, unknown> | null;
}

/** How a tool is started. A field that the tool's runner does not support is refused, never ignored. */
export interface Launch {
  /** Let the tool do everything without asking. */
  yolo?: boolean | null;
  /** What the tool may do without asking: the tool's own name of a mode. */
  permissionMode?: string | null;
  /** Further arguments for the tool, passed unchanged. */
  flags?: string[] | null;
  /** What happens to a permission request that no one answers within the answer limit. */
  unanswered?: "reject" | "allow" | "stop" | null;
  /** Text that every prompt begins with. */
  promptPrefix?: string | null;
  /** Text that every prompt ends with. */
  promptSuffix?: string | null;
  /** New branch on which a verified result is kept, too; slots: `{id} {recipe} {delegator}`, as in `understudy/{id}`. The checkout does not change. */
  branch?: string | null;
  /** Whether the agent works in a worktree when a recipe changes files. In your own checkout, its changes are in your files at once, each can be undone, and the result is never verified. */
  useWorktree?: boolean | null;
  /** Program and arguments of a custom command; slots: `{prompt} {promptFile} {model} {worktree} {sessionId}`. */
  command?: string[] | null;
  /** How a custom command gets its prompt: as an argument, on standard input, or in a file. */
  promptDelivery?: "argument" | "stdin" | "file" | null;
  /** What happens in the mode `tmux` on a machine without tmux: it fails (default), or runs without a terminal. */
  withoutTmux?: "fail" | "headless" | null;
  /** Give the agent tools to ask the user, report progress, delegate further and talk to its group. */
  relay?: boolean | null;
  /** What a custom command prints: plain text (default), or one JSON event per line, `result` last. */
  output?: "text" | "events" | null;
}

/** A value that is read from an environment variable when it is needed, and never stored. */
export interface EnvReference {
  /** Name of the environment variable. */
  fromEnv: string;
}

/** Bounds of one delegation; times in seconds, money in USD as a decimal string. */
export interface Limits {
  /** Longest duration of all attempts together. */
  totalSeconds?: number | null;
  /** Longest time between two events of the agent; also before the first one, unless that has a limit of its own. Other output and keep-alives do not count. */
  idleSeconds?: number | null;
  /** Longest time from the start of an attempt to its first event. */
  firstEventSeconds?: number | null;
  /** Longest time from the agent's result to the exit of its process. */
  afterResultSeconds?: number | null;
  /** How long a permission request waits for the user; then it is rejected. */
  answerSeconds?: number | null;
  /** Most turns of the agent. */
  maxTurns?: number | null;
  /** Most tokens that the model writes, in all turns together. */
  maxOutputTokens?: number | null;
  /** Most tokens read and written, in all turns together. */
  maxTokens?: number | null;
  /** Highest cost of all turns together, as far as the prices are known. */
  maxUsd?: string | null;
}

/** Answers an agent's permission requests without asking; every given field must match. */
export interface PermissionRule {
  /** `allow`, `reject`, or `ask` the user although a later rule matches. */
  decision: "allow" | "reject" | "ask";
  /** What the tool would do; absent: anything. */
  kind?: "read" | "edit" | "execute" | "fetch" | "other" | null;
  /** First words of the command line (`npm test`). Allowed is only a simple command: one with operators, redirections or substitutions is never allowed by a rule; rejected is every command that contains it. */
  command?: string | null;
  /** Allow the command only as it is, without further words. */
  exact?: boolean;
  /** Pattern of files, relative to the worktree (`src/**`). Allowed are only requests of which all files match and are in the worktree; rejected are those of which one matches. */
  path?: string | null;
}

/** Who does the work: candidates in an order. Its name can be used wherever that of a delegator can. */
export interface Route {
  /** Only for these recipes. */
  recipes?: string[] | null;
  /** Only if every file of the work is in one of these languages (LSP identifiers, such as `python`). */
  languages?: string[] | null;
  /** Only if the files of the work have at most this size together. */
  maxBytes?: number | null;
  /** Only if the work has one of these labels (`--label`). */
  labels?: string[] | null;
  /** Delegators by their names, or what selects some; each is considered once, in the first place whose conditions hold. */
  candidates: (string | RouteCandidate)[];
  /** `cheapest`: by the prices of their models; `fastest`: by how long their attempts of the recipe took; `best`: by how many of these ended as verified, less where there were few. Those of which that is not known come last. */
  order?: "listed" | "cheapest" | "fastest" | "best";
  /** `true`: a delegator on other machines may take over from one on this machine; in a user's own file only. */
  remote?: boolean;
  /** `true`: while no result is verified, the next candidate tries, after the one before was asked once more; it continues a result whose checks pass. The best result counts. */
  escalate?: boolean;
  /** `true`: while all candidates are paused, a delegation waits for the end of the first pause. */
  wait?: boolean;
}

/** One or several delegators of a route: one by its name, or all that have everything that is named here. */
export interface RouteCandidate {
  /** Only for these recipes. */
  recipes?: string[] | null;
  /** Only if every file of the work is in one of these languages (LSP identifiers, such as `python`). */
  languages?: string[] | null;
  /** Only if the files of the work have at most this size together. */
  maxBytes?: number | null;
  /** Only if the work has one of these labels (`--label`). */
  labels?: string[] | null;
  /** The name of one delegator; nothing else selects then. */
  delegator?: string | null;
  /** All with this agent CLI. */
  tool?: string | null;
  /** All on this model server. */
  modelServer?: string | null;
  /** All with this model. */
  model?: string | null;
  /** All that have each of these tags. */
  tags?: string[] | null;
  /** All that send nothing to other machines, or, if `false`, all others. */
  local?: boolean | null;
}

/** An agent on another service, which that service runs; Understudy keeps, lists and exports it. */
export interface RemoteAgent {
  /** The service: `agnt`, `openai`, …. */
  platform: string;
  /** The name or id of the agent there. */
  id: string;
}

/** Whether a delegator can be used now. */
export interface EntryState {
  ready: boolean;
  problems: Problem[];
  running: number;
  queued: number;
  /** Why its fallbacks are tried instead; without fallbacks, it is tried all the same. */
  pauses?: Pause[];
}

/** A pause of a delegator after failures of one kind: its fallbacks are tried instead. */
export interface Pause {
  failure: FailureClass;
  state: CircuitState;
  /** How many there were one after another. */
  failures: number;
  /** RFC 3339, UTC. */
  until: string;
  /** The last failure. */
  message: string;
}

/** A delegator or model server, by its name. */
export interface NameParams {
  name: string;
  workspace?: string | null;
}

/** Create a delegator. */
export interface DelegatorCreateParams {
  delegator: Delegator;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Create a delegator for an agent CLI, with a generated name. */
export interface DelegatorFromToolParams {
  tool: string;
  model?: string | null;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Create a delegator of the user from an agent profile (`agent-profile.json`), which is kept beside it. */
export interface ImportProfileParams {
  /** The file (URI or absolute path); exactly one of `path` and `text` is given. */
  path?: string | null;
  /** The profile as JSON. */
  text?: string | null;
  /** Also take over what decides about permissions: `yolo`, permission modes, flags, commands, variables. Without it, they are only kept for an export. */
  permissions?: boolean;
  workspace?: string | null;
  /** Return what would be written, and write nothing. */
  dryRun?: boolean;
  /** `revision` of a dry run: if something else would be written now, the request is a `conflict`. */
  revision?: string | null;
}

/** Return delegators in a format of other programs. */
export interface ExportProfileParams {
  /** One delegator; for `agnt` any number, which work one after the other. */
  names: string[];
  /** `profile`: an agent profile, for an imported delegator the original with what has changed since. `agnt`: a workflow of AGNT. */
  format?: "profile" | "agnt";
  /** What the agents of a workflow are asked. */
  task?: string | null;
  workspace?: string | null;
}

/** An exported profile or workflow. */
export interface ExportProfileResult {
  /** JSON. */
  text: string;
  /** What the format has no place for. */
  leftOut: NotCarriedOver[];
}

/** Replace a delegator. */
export interface DelegatorUpdateParams {
  name: string;
  delegator: Delegator;
  revision?: string | null;
  workspace?: string | null;
}

/** Remove a delegator, model server or check; with `revision`, only if it still has that revision. */
export interface DeleteParams {
  name: string;
  revision?: string | null;
  workspace?: string | null;
}

/** Set the delegator that is used when neither a request nor its recipe names one. */
export interface DefaultParams {
  /** Absent: remove the default. */
  delegator?: string | null;
  /** The recipe whose default it is; absent: the default for everything that no other default covers. */
  recipe?: string | null;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** The default that applies now. */
export interface DefaultResult {
  /** Another one than was set if a configuration with precedence sets it; absent: none. */
  delegator?: string;
}

/** Test a delegator: the saved one with this name, or an unsaved one. */
export interface DelegatorTestParams {
  name: string;
  /** Test this declaration instead of the saved one; it is not saved. */
  delegator?: Delegator | null;
  /** Where `delegator` would be saved; decides which model servers it can use. */
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** The result of a connection test; `ok` when every step succeeded. */
export interface ConnectionTest {
  ok: boolean;
  steps: ConnectionTestStep[];
}

/** One step of a connection test: `binary`, `version`, `tmux`, `endpoint`, `key`, `round_trip` …. */
export interface ConnectionTestStep {
  name: string;
  ok: boolean;
  message: string;
  seconds: number;
}

/** Every model server, and the problems of the configuration. */
export interface ModelServersResult {
  modelServers: ModelServerEntry[];
  problems: Problem[];
}

/** A model server with its scope, location and state. */
export interface ModelServerEntry {
  modelServer: ModelServer;
  scope: Scope;
  revision: string;
  editable: boolean;
  location?: Location;
  state: ServerState;
}

/** An inference endpoint. */
export interface ModelServer {
  /** Its name in delegators, and the name of its file. */
  name: string;
  /** Name to display in lists. */
  displayName?: string | null;
  /** The kind of server (see `modelServers/presets`); `custom` for any other. */
  kind: string;
  /** Base URL without `/chat/completions` (`http://127.0.0.1:11434/v1`). */
  baseUrl: string;
  /** APIs of the server, the preferred one first; `openai` unless declared. `["auto"]`: the name of the model and the answers of the server decide. */
  protocols?: string[] | null;
  /** Where its key is stored; the file never contains the key itself. */
  apiKey?: KeyReference | null;
  /** HTTP headers sent with every request; not for keys. */
  headers?: Record<string, string> | null;
  /** `local`: its address must be on this machine, and its models cost nothing unless `prices` has a price. */
  locality?: "local" | "remote" | null;
  /** Most requests that Understudy itself sends to it at once, in all processes together; others wait. */
  maxConcurrent?: number | null;
  /** What its models cost, by the first characters of their names; the longest that fits applies, `""` fits all. */
  prices?: Record<string, Price> | null;
}

/** Where an API key is stored; exactly one field is set. */
export interface KeyReference {
  /** Name of an environment variable. */
  fromEnv?: string | null;
  /** Entry name in the operating system's keyring (service `understudy`). */
  keyring?: string | null;
  /** Absolute path of a file that only its owner can read (mode 0600). */
  file?: string | null;
}

/** What a model costs, in USD per million tokens, as decimal strings. */
export interface Price {
  /** Tokens read. */
  input: string;
  /** Tokens written. */
  output: string;
  /** Tokens read from the provider's cache; absent: as `input`. */
  cacheRead?: string | null;
  /** Tokens written to the provider's cache; absent: as `input`. */
  cacheWrite?: string | null;
}

/** Whether a model server can be used. */
export interface ServerState {
  problems: Problem[];
}

/** Create a model server. */
export interface ModelServerCreateParams {
  modelServer: ModelServer;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Replace a model server. */
export interface ModelServerUpdateParams {
  name: string;
  modelServer: ModelServer;
  revision?: string | null;
  workspace?: string | null;
}

/** Every kind of model server. */
export interface PresetsResult {
  presets: ServerPreset[];
}

/** A kind of model server, and its default address. */
export interface ServerPreset {
  /** The value of `kind` in a model server. */
  kind: string;
  title: string;
  /** Its usual address; empty: there is none. */
  baseUrl: string;
  protocols: string[];
  /** Whether it usually runs on the user's own machine. */
  local: boolean;
  /** Whether it usually requires an API key. */
  needsKey: boolean;
  /** The environment variable in which its documentation expects the key. */
  keyVariable?: string;
  /** Whether the environment of the sidecar has that variable. */
  keyInEnvironment: boolean;
  /** The page on which its users create API keys. */
  keyUrl?: string;
  /** Names under which users know the models that it serves, for searches; all of a local server are `models`. */
  families?: string[];
  /** Whether a model server responds at `baseUrl` on this machine now. */
  running: boolean;
  /** The models that it lists, while it is running. */
  models?: string[];
}

/** The models of a model server. */
export interface ModelsResult {
  models: Model[];
}

/** A model as its server lists it. */
export interface Model {
  /** Model ID on its server. */
  id: string;
  /** Size of its context window in tokens. */
  contextTokens?: number;
  /** The server's prices, if it reports them. */
  price?: ModelPrice;
}

/** Prices in USD per million tokens, as decimal strings. */
export interface ModelPrice {
  /** Tokens read. */
  input?: string;
  /** Tokens written. */
  output?: string;
}

/** Store an API key; it is never returned. */
export interface SetKeyParams {
  name: string;
  key: string;
  workspace?: string | null;
}

/** Every configured check, those that the project suggests, and the problems of the configuration. */
export interface ChecksResult {
  checks: CheckEntry[];
  /** The most specific first; found by reading files, so they may not pass. */
  proposals: CheckProposal[];
  problems: Problem[];
}

/** A check with its scope, location and state. */
export interface CheckEntry {
  check: Check;
  scope: Scope;
  revision: string;
  editable: boolean;
  location?: Location;
  state: CheckState;
}

/** A command whose exit code is evidence. */
export interface Check {
  /** Its name in requests and recipes. */
  name: string;
  /** Slots: `{python}` (the project's interpreter), `{tests}` (the test files the result added or changed). */
  argv: string[];
  /** Relative to the workspace. */
  cwd?: string | null;
  /** Environment variables of its process, in addition to the project's own. */
  env?: Record<string, string> | null;
  /** Seconds until it is killed and counts as failed. */
  timeoutSeconds?: number | null;
  /** Whether a result can be `verified` only if this passes. */
  required?: boolean;
  /** Globs of further files that decide what this check does; scripts, tests and known configuration files are found. If the check passes only with a result's changes to such files, the result gets `check_changed`. */
  configuredBy?: string[];
  /** Keep this check and its files from agents; only in your own configuration. */
  hidden?: boolean;
  /** Files of a hidden check, relative to your configuration folder; copied to the same paths of the worktree to judge, and removed afterwards. */
  files?: string[];
}

/** Whether a check can be used; an unusable one stops every start. */
export interface CheckState {
  problems: Problem[];
}

/** A check that the files of a workspace suggest. */
export interface CheckProposal {
  /** The test runner. */
  title: string;
  check: Check;
  /** The file that shows that the project uses this runner, relative to the workspace. */
  shownBy: string;
  /** What keeps it from running here, as far as files show it. */
  problem?: string;
  /** What to do, as a sentence for the command line. */
  hint?: string;
  /** The same for a button; then the check can be tried. */
  remedy?: Remedy;
  /** Whether a check with the same command is configured. */
  configured: boolean;
}

/** Create a check. */
export interface CheckCreateParams {
  check: Check;
  /** A check of the scope `user` applies in every workspace. */
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Run a check on the current files of a workspace: the configured one with this name, or an unsaved one. */
export interface CheckTestParams {
  name: string;
  /** Run this declaration instead of the saved one; it is not saved. */
  check?: Check | null;
  workspace?: string | null;
}

/** The outcome of one run of a check on the current files, in a worktree of its own. */
export interface CheckTrial {
  /** Whether it passed, so that a result can pass it, too. */
  ok: boolean;
  /** The command with its slots filled. */
  argv: string[];
  /** Absent if it could not be started or was killed. */
  exitCode?: number;
  /** How long the command ran. */
  seconds: number;
  timedOut: boolean;
  passed?: number;
  failed?: number;
  /** Tests, where the runner reports them. */
  skipped?: number;
  /** The end of its output, or why it could not be started. */
  outputTail: string;
  /** What differs from the user's checkout, such as files that were left out. */
  notes: string[];
  /** What to do so that it may pass, as a sentence for the command line. */
  hint?: string;
  /** The same for a button; then it can be tried again. */
  remedy?: Remedy;
}

/** Every schedule, and the problems of the configuration. */
export interface SchedulesResult {
  schedules: ScheduleEntry[];
  problems: Problem[];
}

/** A schedule with its location and state. */
export interface ScheduleEntry {
  schedule: Schedule;
  scope: Scope;
  revision: string;
  editable: boolean;
  location?: Location;
  state: ScheduleState;
}

/** A delegation, or a batch of them, that starts at the times of a cron expression. */
export interface Schedule {
  /** Its name in lists, and the name of its file. */
  name: string;
  /** When it starts, in five fields: minute, hour, day of the month, month, day of the week. */
  cron: string;
  /** The time zone of `cron`, such as `Europe/Berlin`; absent: that of the machine. */
  timezone?: string | null;
  /** The folder in which it works: an absolute path, or one that begins with `~/`. */
  workspace: string;
  /** The recipe of one delegation; absent where a `batch` is named. */
  recipe?: string | null;
  /** What is to be done. */
  task?: string | null;
  /** The files to work on; relative paths start in the workspace. */
  files?: string[];
  /** The delegator or the route; absent: chosen by the configuration. */
  delegator?: string | null;
  /** A file of tasks, as for `understudy batch`, instead of a recipe; a relative path starts in the workspace. */
  batch?: string | null;
  /** For times at which nothing ran that could start it: `once` makes up for the last of them, `skip` for none. Missed times are listed. */
  catchUp?: "once" | "skip";
  /** How late it may be made up for. */
  windowMinutes?: number;
}

/** What is wrong with a schedule, and its next and last runs. */
export interface ScheduleState {
  problems: Problem[];
  /** When it starts work next; absent while it is paused or has errors. */
  nextAt?: string;
  paused?: boolean;
  /** How many times nothing was started for since the last run. */
  missed?: number;
  /** The last ones, the newest last. */
  runs?: ScheduleRun[];
}

/** What a schedule started at one of its times. */
export interface ScheduleRun {
  /** The time. */
  due: string;
  startedAt: string;
  delegation?: string;
  /** The group of a batch. */
  group?: string;
  /** How many times before it nothing was started for. */
  missed?: number;
  /** Why nothing could be started. */
  error?: ErrorInfo;
}

/** An error as sent to clients: what happened, to what, and what to do next. */
export interface ErrorInfo {
  kind: ErrorKind;
  message: string;
  hint?: string;
  location?: Location;
  names?: string[];
  /** When a retry can succeed, if the server or tool reports it (RFC 3339, UTC). */
  retryAt?: string;
  scope?: ErrorScope;
  /** Absolute paths of logs that can explain it, the most useful one first; no text of the error names them. */
  logPaths?: string[];
  /** The parameter of the request that is wrong (`launch.permissionMode`), for forms; absent if it may be any. */
  parameter?: string;
  /** What can be done about it, for a button; `hint` says the same to the command line. */
  remedy?: Remedy;
}

/** Create a schedule: one file in the user's configuration. */
export interface ScheduleCreateParams {
  schedule: Schedule;
}

/** Let a schedule start nothing until it is resumed; the times until then are not made up for. */
export interface SchedulePauseParams {
  name: string;
  paused: boolean;
}

/** A schedule, by its name. */
export interface ScheduleNameParams {
  name: string;
}

/** What this request started, or could not start. */
export interface ScheduleServeResult {
  runs: ScheduleRun[];
}

/** Let a timer of the system start what is due. */
export interface ScheduleInstallParams {
  /** Only return what would be written. */
  dryRun?: boolean;
}

/** The timer of the system. */
export interface ScheduleInstallResult {
  /** Path → text; `crontab` for a line that the user adds. */
  files: Record<string, string>;
  /** What begins to use the files; empty where the user does that. */
  command: string[];
  installed: boolean;
}

/** Every receiver of notifications, and the problems of the configuration. */
export interface NotificationsResult {
  notifications: NotificationEntry[];
  problems: Problem[];
}

/** A receiver of notifications with its location and state. */
export interface NotificationEntry {
  receiver: NotificationReceiver;
  scope: Scope;
  revision: string;
  editable: boolean;
  location?: Location;
  state: NotificationState;
}

/** A receiver of notifications: the desktop, a webhook, ntfy, Slack or Telegram. */
export interface NotificationReceiver {
  /** Its name in lists, and the name of its file. */
  name: string;
  /** The desktop of this machine, a URL that gets JSON, or one of the services. */
  kind: "desktop" | "webhook" | "ntfy" | "slack" | "telegram";
  /** Where a webhook gets its JSON; for ntfy and Telegram another server than `https://ntfy.sh` and `https://api.telegram.org`. */
  url?: string | null;
  /** Where the URL of a webhook that must be kept secret is stored; Slack's always is. */
  secretUrl?: KeyReference | null;
  /** The topic at ntfy. */
  topic?: string | null;
  /** The chat at Telegram: its number. */
  chat?: string | null;
  /** Where the token of Telegram's bot is stored, or the one with which a webhook or ntfy is called. */
  token?: KeyReference | null;
  /** The events that it gets; absent: all. */
  events?: ("question" | "verdict" | "failure" | "pause" | "budget")[];
  /** The folders whose delegations it gets: absolute paths, or paths that begin with `~/`; absent: all. */
  workspaces?: string[];
  /** Hosts, addresses or networks (`192.168.1.0/24`) that may be connected to; without an entry, only public addresses are. */
  allowPrivate?: string[];
  /** Whether a question can be answered from it: with the buttons of ntfy and Telegram. */
  answer?: boolean;
}

/** What is wrong with a receiver of notifications, and the outcome of the last notifications. */
export interface NotificationState {
  problems: Problem[];
  /** How many notifications it took. */
  sent?: number;
  lastSentAt?: string;
  /** How many it did not get since the last one that it took. */
  failed?: number;
  /** Why it did not get the last of these. */
  lastError?: ErrorInfo;
}

/** Create a receiver of notifications: one file in the user's configuration. */
export interface NotificationCreateParams {
  receiver: NotificationReceiver;
}

/** Send a notification to a receiver now. */
export interface NotificationTestParams {
  name: string;
}

/** The receiver took the notification. */
export interface NotificationTestResult {
  seconds: number;
}

/** A text recipe to run in this process: one request to a model server, without a delegation. */
export interface TextParams {
  /** Name of a recipe that returns text. */
  recipe: string;
  /** Instructions of the user, such as the question. */
  task?: string | null;
  /** URIs of files and folders to send; what is open in the editor is sent as the editor shows it. */
  files?: string[] | null;
  /** The selected lines of the first file. */
  range?: Range | null;
  /** Problems in the first file, as LSP declares them. */
  diagnostics?: unknown[] | null;
  /** Text to work on. */
  input?: string | null;
  delegator?: string | null;
  /** Those that take over if it fails, in order; absent: as the delegator says. */
  fallback?: string[] | null;
  /** Changes of the delegator for this request. */
  launch?: LaunchOverride | null;
  limits?: Limits | null;
  /** URI of the workspace; absent: the git top level of the first file, else its folder. */
  workspace?: string | null;
  /** Open documents, for clients that do not synchronise them. */
  buffers?: Buffer[] | null;
  /** Send the answer as it arrives in `understudy/text`, under this name. */
  stream?: string | null;
}

/** What one delegation changes of its delegator; what has no effect there is refused. */
export interface LaunchOverride {
  /** Model ID. */
  model?: string | null;
  /** How the tool is driven. */
  mode?: "headless" | "acp" | "tmux" | null;
  /** What the tool may do without asking; it replaces `yolo`, too. */
  permissionMode?: string | null;
  /** Properties of the model, in addition to the delegator's. */
  modelProperties?: Record<string, unknown> | null;
  /** Whether the agent works in a worktree, and not in the user's checkout. */
  useWorktree?: boolean | null;
  /** Limits, in addition to those beside `launch`, by the names that a configuration file gives them (`total_seconds`). */
  limits?: Record<string, number | number | string> | null;
}

/** The text of an open document, which may differ from the file on disk. */
export interface Buffer {
  uri: string;
  text: string;
}

/** Exactly what a start would send; tokens are estimates (bytes divided by four). */
export interface PreviewResult {
  /** Empty for a delegator that works without a model and reads only the files. */
  prompt: string;
  files: PreviewFile[];
  tokens: number;
  explain: Explanation;
  /** What worktrees lack for the project's tests. */
  lacks?: Lack[];
}

/** A file that would be sent, or why it would be withheld. */
export interface PreviewFile {
  path: string;
  bytes: number;
  tokens: number;
  withheld?: string;
}

/** The chosen delegator, and why. */
export interface Explanation {
  delegator: string;
  /** Others that were considered, also as its fallbacks, and why each was left out. */
  candidates: Candidate[];
  reason: string;
  /** The delegators that take over when this one cannot work, in this order. */
  fallback?: string[];
  /** The route that chose it; `candidates` has all of its candidates then, also those that may be taken. */
  route?: string;
}

/** A delegator that was considered. */
export interface Candidate {
  name: string;
  /** Why it has its place on a route. */
  reason?: string;
  skippedBecause?: string;
}

/** What a delegation lacks, although it can start. */
export interface Lack {
  /** A sentence. */
  text: string;
  /** What to do, as a sentence for the command line. */
  hint: string;
  remedy?: Remedy;
}

/** The whole answer; the request is in the ledger. */
export interface TextResult {
  /** ID of its lines in the ledger, one for each attempt. */
  id: string;
  text: string;
  /** The one that answered. */
  delegator: string;
  model: string;
  /** Of all attempts. */
  usage: Usage;
  /** Of all attempts; absent: unknown. */
  costUsd?: string;
  seconds: number;
  /** Warnings: files that were not sent, limits without effect, retries. */
  notes: string[];
}

/** What to delegate. Only `recipe` is always required. */
export interface StartParams {
  recipe: string;
  /** Instructions of the user. */
  task?: string | null;
  /** URIs of the files to work on; for `tests`, the files under test. */
  files?: string[] | null;
  range?: Range | null;
  diagnostics?: unknown[] | null;
  /** URIs of files attached for reading. */
  contextFiles?: string[] | null;
  /** Text to work on, for recipes that return text. */
  input?: string | null;
  /** URI of the file to write, for recipes that return a file. */
  target?: string | null;
  delegator?: string | null;
  /** Delegators that take over when the first one cannot work, in this order, instead of those that it names itself; `[]`: none. `launch` does not apply to them, limits do. */
  fallback?: string[] | null;
  /** An agent (see `agents/list`) whose instructions, model and tools apply to this delegation. */
  agent?: string | null;
  /** URI of the workspace; absent: the git top level of the first file, else its folder. */
  workspace?: string | null;
  /** Copy all files of a workspace without git, however many there are; otherwise a large one is refused. */
  wholeFolder?: boolean | null;
  /** `current` (the user's files and buffers, the default), `head`, or a revision. */
  base?: string | null;
  /** Names of configured checks to run instead of the recipe's. */
  checks?: string[] | null;
  limits?: Limits | null;
  /** Changes of the delegator for this delegation. */
  launch?: LaunchOverride | null;
  /** How often the agent is asked again, from 0 to 10: for a repair while a required check fails, then for tests that notice more. Absent: as the recipe says. */
  rounds?: number | null;
  /** Words about the work, for the conditions of routes. */
  labels?: string[] | null;
  /** When it starts at the earliest, as RFC 3339 with an offset; it waits in the queue until then. */
  startAt?: string | null;
  /** `quota`: while the delegator and all that may take over are paused, it waits for the end of the first pause. */
  when?: "quota" | null;
  /** The group that the delegation joins, made by `groups/create`. */
  groupId?: string | null;
  idempotencyKey?: string | null;
  workDoneToken?: string | number | null;
  buffers?: Buffer[] | null;
}

/** The delegation has started. */
export interface StartResult {
  id: string;
  explain: Explanation;
}

/** One delegation, by its ID or an unambiguous prefix of it. */
export interface IdParams {
  id: string;
}

/** The current state of one delegation. */
export interface Delegation {
  id: string;
  title: string;
  recipe: string;
  state: State;
  verdict?: Verdict;
  reservations: Reservation[];
  /** What the reservations are about; those of other reservations no longer hold. */
  reservationFacts?: ReservationFact[];
  /** The changed places of the result, those without evidence first, at most 200; none if no required check passed. While checks run, and after they were cancelled, those of which something is known, in the order in which it was found. */
  places?: ChangedPlace[];
  /** Changed tests that the user confirmed by accepting them; they no longer count as a reservation. */
  confirmedTests?: number;
  workspace: string;
  delegator: string;
  attempts: Attempt[];
  base?: string;
  head?: string;
  worktree?: string;
  /** The ref for `worktrees/restore`; only while the worktree is removed. */
  rescueRef?: string;
  result?: DelegationResult;
  checks: CheckResult[];
  /** What the tests noticed in each round; empty unless rounds were asked for. */
  rounds?: Round[];
  review: Review;
  /** The isolation of its agents, the weakest of all attempts; absent while no agent ran a program. */
  sandbox?: Sandbox;
  /** Whether the isolation is `landlock` or stronger. */
  confined: boolean;
  /** Where the user can watch and answer the agent (see `delegations/attach`); only while it runs in tmux. */
  terminal?: Pane;
  usage: Usage;
  costUsd?: string;
  costKnown: boolean;
  activity?: string;
  /** How far the activity is, if it is counted. */
  count?: Count;
  askedBy: AskedBy;
  startedAt: string;
  /** When its checks were last started again after its end. */
  recheckedAt?: string;
  finishedAt?: string;
  error?: ErrorInfo;
  groupId?: string;
  /** Ids of the delegations of its group that must succeed before it starts. */
  after?: string[];
  /** When it starts at the earliest. */
  startAt?: string;
  parentId?: string;
  /** Ids of pending hunks whose accept failed because they conflict with the user's file. */
  conflicts?: string[];
  /** The user dismissed it: it no longer needs attention, whatever its outcome. */
  dismissed?: boolean;
  /** The follow-up that continues the pending hunks; None again if that follow-up failed. */
  supersededBy?: string;
  waitingFor?: PermissionRequest;
  /** What the user said to the agent, oldest first. */
  messages?: SentMessage[];
  lastSeq: number;
}

/** What a reservation is about: one sentence with the files, lines, tests and counts. */
export interface ReservationFact {
  reservation: Reservation;
  text: string;
  /** What to do, as a sentence for the command line. */
  hint?: string;
  /** The same for a button; then the checks can run again. */
  remedy?: Remedy;
}

/** One changed place: the lines of one hunk that belong to one function, or to none. */
export interface ChangedPlace {
  /** The id of its hunk, as in `FileDiff`. */
  hunk: string;
  /** A path inside the workspace, C-quoted when not UTF-8. */
  path: string;
  /** Its first line in the result, from 1; for removed lines, the line that follows them. 0: the whole file. */
  line: number;
  /** How many lines it has in the result; 0 if lines were only removed. */
  lines: number;
  /** Its function with the classes around it; empty for code outside functions. */
  function: string;
  evidence: PlaceEvidence;
  /** A sentence without full stop: what shows it, or what is missing. */
  why: string;
}

/** One try on one delegator. */
export interface Attempt {
  number: number;
  delegator: string;
  tool?: string;
  modelServer?: string;
  model: string;
  /** Why this attempt was made on this delegator. */
  reason?: string;
  startedAt: string;
  finishedAt?: string;
  sessionId?: string;
  startCommit: string;
  endCommit?: string;
  /** Where its worktree is kept, if it changed files and the next attempt began again from the base; see `worktrees/list`. */
  rescueRef?: string;
  /** What it changed, at most 100 paths; only where other delegators may take over. The next attempt continues with it if it starts from the end commit of this one. */
  files?: string[];
  usage: Usage;
  costUsd?: string;
  /** Where the amount is from. */
  costSource?: "reported" | "configured" | "table" | "local" | "unknown";
  /** The date of the price table that it was computed with. */
  priceDate?: string;
  /** Whether it was computed from tokens that Understudy estimated, because nothing reported them. */
  costEstimated?: boolean;
  failure?: ErrorInfo;
}

/** The result of a delegation. */
export interface DelegationResult {
  text?: string;
  summary?: string;
  files: FileStat[];
}

/** How much of a file changed. */
export interface FileStat {
  path: string;
  status: string;
  additions: number;
  deletions: number;
}

/** The result of one check on one tree. */
export interface CheckResult {
  name: string;
  argv: string[];
  exitCode?: number;
  /** Of the run that these counts and this exit code are from. */
  seconds: number;
  /** Of all runs: this one, its repetitions, those on the base, and those of mutation testing. */
  judgingSeconds?: number;
  /** Object ID of the tree that was judged. */
  tree: string;
  passed?: number;
  failed?: number;
  skipped?: number;
  outputTail: string;
  mutation?: MutationResult;
  flaky: boolean;
  /** The tests that passed once and failed once, if the runner names them. */
  flakyTests?: string[];
  failsOnBase: boolean;
  checkoutFiles?: string[];
  /** Tracked files that differed from the tree after a run. */
  changedFiles?: string[];
  /** Whether the check passed on this tree (even if it is flaky). */
  ok: boolean;
  required: boolean;
  /** The isolation of its process; absent when it could not be started. */
  sandbox?: Sandbox;
  /** What the base's tests show; absent if they agree with the result's, or were not needed. */
  base?: BaseComparison;
  /** Why the report of its test run cannot be trusted; absent if it can. */
  tampered?: string[];
}

/** Which small changes of the code the tests of a check noticed. */
export interface MutationResult {
  /** What was mutated: the files under test, or the lines that the result changed. */
  scope?: "files" | "changes";
  /** Mutants that the tests noticed, those that got stuck among them. */
  killed: number;
  /** Mutants that count: they could be built and were judged, on lines that the tests execute. */
  viable?: number;
  /** Mutants on which the tests took far too long. */
  stuck?: number;
  /** Killed mutants on which a test ran into an error or got stuck: any test that executes them notices that, even one that compares nothing. 0 if the runner does not tell. */
  blind?: number;
  /** All mutants on lines that the tests execute; a sample of them is judged. */
  executed?: number;
  /** All mutants of these files or lines. */
  total?: number;
  /** The first 60 lines with mutants that no test executes; fewer if the runner does not tell them. */
  unexecuted?: CodePlace[];
  /** Mutants that were left out because the user dismissed them. */
  dismissed?: number;
  /** The judged mutants: survivors first, then killed ones, at most 60. */
  mutants?: JudgedMutant[];
  /** Ids of new tests that ran on mutants and killed none, at most 100. */
  idle?: string[];
  /** Ids of tests that failed although nothing a program does had changed; their kills do not count. */
  unreliable?: string[];
  /** How long it took. */
  seconds?: number;
  /** Why fewer mutants were judged than planned; absent if all were. */
  unfinished?: string;
}

/** A line of the result. */
export interface CodePlace {
  /** A path inside the workspace, C-quoted when not UTF-8. */
  path: string;
  /** From 1. */
  line: number;
}

/** A small change of the code, made in a copy, and whether the tests noticed it. */
export interface JudgedMutant {
  /** Stays the same while its line, its function and the change stay the same. */
  id: string;
  /** The changed file: a path inside the workspace, C-quoted when not UTF-8. */
  path: string;
  /** From 1. */
  line: number;
  /** Its function with the classes around it; empty for code outside functions. */
  function: string;
  /** The kind of change, such as `comparison`. */
  operator: string;
  /** The line as it is in the result; several lines if the change replaces them. */
  before: string;
  /** The same with the change. */
  after: string;
  status: MutantStatus;
  /** Ids of tests that failed; a run ends at the first. */
  killedBy?: string[];
}

/** The isolation of a process tree: the requested level, and the level that this machine could provide. */
export interface Sandbox {
  asked: Confinement;
  reached: Confinement;
}

/** What differs when the tests and the check-deciding files of the base judge the result. */
export interface BaseComparison {
  /** Tests that passed before. */
  earlier: number;
  /** How many of them do not pass without the result's edits, or no longer run. */
  lost: number;
  /** Those tests, at most 100; fewer if the runner names none. */
  tests: ChangedTest[];
  /** Files that were restored or taken out, at most 100. */
  restored: string[];
}

/** A test that passed on the base, and whose outcome on the result depends on what the result changed. */
export interface ChangedTest {
  /** Its id. */
  test: string;
  /** The outcome of the base's version on the result: `passed`, `failed`, `skipped` or `missing`. */
  restored: string;
  /** The outcome of the result's version. */
  result: string;
}

/** How many small changes of the code the tests noticed in one round, on the same changes as far as possible. */
export interface Round {
  /** 0 for the first result, then from 1 for each attempt to notice more. */
  number: number;
  /** Mutants that the tests noticed. */
  killed: number;
  /** Mutants that count. */
  viable: number;
  /** Whether the result of this round was kept; otherwise the result before it was restored. */
  kept: boolean;
  /** Why it was not kept; absent if it was. */
  why?: string;
}

/** How many hunks are pending, accepted and rejected. */
export interface Review {
  pending: number;
  accepted: number;
  rejected: number;
}

/** A pane of a tmux server. */
export interface Pane {
  /** Absolute path of the socket of its tmux server. */
  socket: string;
  /** Its id on this server, such as `%3`. */
  id: string;
}

/** How far a long step of judging is. */
export interface Count {
  of: "tests" | "small_changes" | "places";
  done: number;
  total: number;
  /** Which of several runs it is, as a few words; empty for the first one. */
  run?: string;
  /** About how long the rest takes; absent: it is over soon, or nothing shows it. */
  secondsLeft?: number;
}

/** Who started a delegation or made a group, as far as the frontend knows. */
export interface AskedBy {
  /** `cli`, `rpc`, `lsp`, `mcp` or `acp`; `relay`: an agent that Understudy runs, with its relay tools. */
  frontend: string;
  /** Name and version of the editor or other client, as it introduced itself. */
  client?: string;
  /** Session of the agent that made the request, from its environment; over ACP, the session of the editor. */
  session?: string;
  /** Tool of that agent. */
  agent?: string;
  /** Process of the client; of the command line, the process that started it. */
  pid?: number;
  /** Folder in which the client works. */
  cwd?: string;
  /** Delegation whose agent made the request. */
  parent?: string;
  /** How many delegations are above: 0 for one that a user started. */
  depth: number;
}

/** A permission request of an agent. */
export interface PermissionRequest {
  requestId: string;
  attempt: number;
  title: string;
  detail: string;
  options: PermissionOption[];
  /** The tool, as the agent names it. */
  tool?: string;
  /** What the tool would do; `question`: the agent asks the user, and nothing is permitted. */
  kind?: "read" | "edit" | "execute" | "fetch" | "other" | "question";
  /** For `execute`: the complete command line; absent when it is too long to be shown. */
  command?: string;
  /** For `read` and `edit`: the files; absent when they are not known, or too many. */
  paths?: string[];
  deadline?: string;
  /** The option that is chosen when no one answers in time. */
  deadlineAction: string;
  /** The rule that an answer with `remember` adds to the delegator; absent when none is proposed. */
  rule?: PermissionRule;
}

/** One possible answer; choose by `kind`, never by `id`. */
export interface PermissionOption {
  id: string;
  title: string;
  kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
  /** Whether the answer is the text that is sent as its `note`. */
  takesText?: boolean;
}

/** What the user said to the agent while the delegation was in progress. */
export interface SentMessage {
  id: string;
  /** Its beginning, as one line. */
  text: string;
  by: string;
  /** How it was to reach the agent; `kept` after the end of a run that did not deliver it. */
  delivery: "sent" | "waiting" | "kept";
  /** Whether the agent got it, or a reply took it along. */
  delivered?: boolean;
}

/** List delegations, newest first; `limit` is at most 1000, default 100. */
export interface ListParams {
  states?: State[] | null;
  workspace?: string | null;
  delegator?: string | null;
  groupId?: string | null;
  text?: string | null;
  limit?: number | null;
  cursor?: string | null;
}

/** A page; `cursor` is present if more follow. */
export interface ListResult {
  delegations: Delegation[];
  cursor?: string;
}

/** Wait for the end, for at most `timeoutSeconds` (default 3600, maximum 86400). */
export interface WaitParams {
  id: string;
  timeoutSeconds?: number | null;
}

/** Return events after `after`; with `waitSeconds` (at most 60), wait for the next one if there is none. */
export interface EventsParams {
  id: string;
  after?: number;
  limit?: number | null;
  waitSeconds?: number | null;
}

/** Events in order, and the last `seq` among them (`after` if there is none). */
export interface EventsResult {
  events: Event[];
  last: number;
}

/** Follow one delegation or all; `after` has, for each delegation, the last `seq` that the client knows. */
export interface SubscribeParams {
  id?: string | null;
  after?: Record<string, number>;
}

/** Stop following one delegation or all. */
export interface UnsubscribeParams {
  id?: string | null;
}

/** Cancel a delegation. */
export interface CancelParams {
  id: string;
  /** Only stop the checks of its result: it ends with what they have shown so far, and can be decided on. */
  onlyChecks?: boolean;
}

/** Show the terminal of an agent that runs in tmux. */
export interface AttachParams {
  id: string;
  /** The values of `TMUX` and `TMUX_PANE` where it will be shown, separated by a blank; absent: outside tmux. */
  tmux?: string | null;
}

/** The command to run in the user's terminal, without the variable `TMUX`. */
export interface AttachResult {
  argv: string[];
}

/** Create an empty group; delegations join it with `groupId` of their start. */
export interface GroupCreateParams {
  kind: "batch" | "compare" | "relay";
}

/** Delegations that were started together. */
export interface Group {
  id: string;
  kind: "batch" | "compare" | "relay";
  /** Ids in the order in which they joined; replies and retries of members join too. */
  delegations: string[];
  /** What they may spend together; absent: each has only its own limits. */
  budget?: GroupBudget;
  askedBy: AskedBy;
  createdAt: string;
}

/** What all delegations of a group may spend together. When it is spent, those that wait do not start, and those that run are stopped; their partial work is kept. */
export interface GroupBudget {
  /** The most tokens that they read and write. */
  maxTokens?: number | null;
  /** The highest cost, in USD as a decimal string; what has no known cost counts as free. */
  maxUsd?: string | null;
}

/** Start tasks as one group, from one base with one set of unsaved texts: all of them, or none after an error. */
export interface GroupStartParams {
  /** At most 200, each as for `delegations/start`, without `groupId`, `idempotencyKey` and `buffers`. */
  tasks: GroupTask[];
  kind?: "batch" | "compare" | "relay";
  /** What all of them may spend together. */
  budget?: GroupBudget | null;
  /** Unsaved texts, for every task. */
  buffers?: Buffer[] | null;
  /** With a key that was used before, return the group that was started with it. */
  idempotencyKey?: string | null;
}

/** One task of a group. */
export interface GroupTask {
  recipe: string;
  /** Instructions of the user. */
  task?: string | null;
  /** URIs of the files to work on; for `tests`, the files under test. */
  files?: string[] | null;
  range?: Range | null;
  diagnostics?: unknown[] | null;
  /** URIs of files attached for reading. */
  contextFiles?: string[] | null;
  /** Text to work on, for recipes that return text. */
  input?: string | null;
  /** URI of the file to write, for recipes that return a file. */
  target?: string | null;
  delegator?: string | null;
  /** Delegators that take over when the first one cannot work, in this order, instead of those that it names itself; `[]`: none. `launch` does not apply to them, limits do. */
  fallback?: string[] | null;
  /** An agent (see `agents/list`) whose instructions, model and tools apply to this delegation. */
  agent?: string | null;
  /** URI of the workspace; absent: the git top level of the first file, else its folder. */
  workspace?: string | null;
  /** Copy all files of a workspace without git, however many there are; otherwise a large one is refused. */
  wholeFolder?: boolean | null;
  /** `current` (the user's files and buffers, the default), `head`, or a revision. */
  base?: string | null;
  /** Names of configured checks to run instead of the recipe's. */
  checks?: string[] | null;
  limits?: Limits | null;
  /** Changes of the delegator for this delegation. */
  launch?: LaunchOverride | null;
  /** How often the agent is asked again, from 0 to 10: for a repair while a required check fails, then for tests that notice more. Absent: as the recipe says. */
  rounds?: number | null;
  /** Words about the work, for the conditions of routes. */
  labels?: string[] | null;
  /** When it starts at the earliest, as RFC 3339 with an offset; it waits in the queue until then. */
  startAt?: string | null;
  /** `quota`: while the delegator and all that may take over are paused, it waits for the end of the first pause. */
  when?: "quota" | null;
  /** The group that the delegation joins, made by `groups/create`. */
  groupId?: string | null;
  idempotencyKey?: string | null;
  workDoneToken?: string | number | null;
  buffers?: Buffer[] | null;
  /** What the other tasks of the group call it; no two tasks have the same name. */
  name?: string | null;
  /** Names of tasks of the group that must succeed before this one starts: with the verdict `answered`, `verified`, `unverified` or `no_changes`. If one ends in another way, this task ends with the error `dependency_failed`. */
  after?: string[] | null;
}

/** All tasks have started, or wait for a free slot. */
export interface GroupStartResult {
  group: Group;
  /** Why each task got its delegator, in the order of `group.delegations` and of the tasks. */
  explanations: Explanation[];
}

/** List groups, newest first; `limit` is at most 1000, default 20. */
export interface GroupListParams {
  limit?: number | null;
}

/** The newest groups. */
export interface GroupListResult {
  groups: GroupOverview[];
}

/** A group and how far its members are. */
export interface GroupOverview {
  group: Group;
  /** The title of its first member; absent while it has none. */
  title?: string;
  /** How many members are in each state, or have each verdict. */
  states: Record<string, number>;
}

/** Wait until every member has finished, for at most `timeoutSeconds` (default 3600, maximum 86400). */
export interface GroupWaitParams {
  id: string;
  timeoutSeconds?: number | null;
}

/** The current members of a group, in the order in which they joined. */
export interface GroupResult {
  delegations: Delegation[];
}

/** The results of a group side by side. Replies take the place of the results that they continue. */
export interface CompareResult {
  /** In the order in which they joined. */
  results: ComparedResult[];
  files: ComparedFile[];
}

/** One column: a delegation, and whether its changes are compared. */
export interface ComparedResult {
  delegation: Delegation;
  /** Whether it has a result that can be read; otherwise `problem` says why not. */
  compared: boolean;
  problem?: string;
}

/** A file that at least one result changes. */
export interface ComparedFile {
  path: string;
  /** As in `FileDiff`. */
  flagReason?: string;
  places: ComparedPlace[];
}

/** Lines of the base that at least one result changes. */
export interface ComparedPlace {
  /** The first line in the base, from 1; for inserted lines, the line before them. 0: the whole file. */
  start: number;
  lines: number;
  /** The one with most results first. */
  variants: Variant[];
  /** The ids of the results that do not change these lines. */
  unchanged: string[];
}

/** One way to change some lines, with every result that has it. */
export interface Variant {
  /** The ids of the results that agree on it. */
  delegations: string[];
  /** Those of all these results; to accept the variant, accept the hunks of one of them. */
  hunks: ComparedHunk[];
  /** Lines of the base that it replaces. */
  removed: string[];
  added: string[];
  /** How many further lines it removes and adds. */
  omitted?: number;
  /** What it does where lines do not say it: the file is created, deleted, renamed, binary, or has another mode. */
  note?: string;
  /** The ids of results with an accepted hunk of another variant of the same lines. */
  conflictsWith?: string[];
}

/** A hunk of one result. */
export interface ComparedHunk {
  /** The id of the delegation. */
  delegation: string;
  /** Its id, as in `FileDiff`. */
  hunk: string;
  path: string;
  state: HunkState;
  conflict: boolean;
  /** As in `Hunk`. */
  tested?: boolean;
}

/** What waits for a slot. */
export interface QueueResult {
  paused: boolean;
  /** In the order in which they start. */
  delegations: Delegation[];
}

/** Let nothing that waits start, or let it start again; what runs is not affected. */
export interface QueuePauseParams {
  paused: boolean;
}

/** Move one waiting delegation to another place. */
export interface QueueMoveParams {
  id: string;
  /** 1 is the next to start; a number beyond the end is the last place. */
  position: number;
}

/** The changes between base and result. */
export interface DiffResult {
  base: string;
  head: string;
  files: FileDiff[];
  /** Accepts that are in effect, newest first. */
  undoable: UndoableAccept[];
  /** The last edited first. */
  edited?: EditedFile[];
}

/** One changed file. Paths that are not UTF-8 or begin with `"` are C-quoted as git does. */
export interface FileDiff {
  path: string;
  from?: string;
  status: "added" | "deleted" | "modified" | "renamed" | "mode" | "type";
  binary: boolean;
  /** Why an accept of the file needs confirmation: what executes or reads such a file, or what a reader cannot see. */
  flagReason?: string;
  hunks: Hunk[];
}

/** The unit of review: a maximal run of changed lines between base and result (one-based, no context). */
export interface Hunk {
  /** First 12 hex digits of SHA-256 over path, both blobs and ordinal. */
  id: string;
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  state: HunkState;
  conflict: boolean;
  edited: boolean;
  reason?: string;
  by?: string;
  /** The accept that merged it into the user's files, which `delegations/undo` undoes. */
  undoToken?: string;
  /** Its places and what shows that tests notice them; none if that is not known. */
  places?: ChangedPlace[];
  /** Whether every place has evidence that no reservation of the result puts in doubt; null if it has no places. */
  tested?: boolean;
  /** The user rejected this change in an earlier result; only in the answer of `delegations/diff`. */
  rejectedBefore?: EarlierRejection;
}

/** The rejection of a change in an earlier result of the same task. */
export interface EarlierRejection {
  /** The delegation whose result had the change. */
  id: string;
  reason?: string;
}

/** An accept that `delegations/undo` can undo. */
export interface UndoableAccept {
  undoToken: string;
  /** The files that it changed, as `delegations/diff` names them. */
  paths: string[];
}

/** A file of the result that was edited by hand; `path` as in `files`, where it is absent if nothing differs. */
export interface EditedFile {
  path: string;
  /** When it was edited last, or its edit undone. */
  at: string;
  /** Whether `delegations/undoAmend` can undo an edit. */
  undoable: boolean;
}

/** One file on one side of the review; paths as `delegations/diff` names them. */
export interface FileParams {
  id: string;
  path: string;
  side: "base" | "result";
}

/** The contents, as text if they are UTF-8; `mode` as git writes it (`100644`). */
export interface FileResult {
  text?: string;
  base64?: string;
  mode: string;
}

/** What was sent to the agent, and the logs of its program. */
export interface LogsResult {
  /** The prompt of the last attempt; absent if none was sent, or if it has expired. */
  prompt?: string;
  /** How much of a very long prompt is missing at its end. */
  promptOmittedBytes?: number;
  /** By attempt; without empty logs. A model of a server has none. */
  files: LogFile[];
}

/** What an agent's program printed in one attempt, as it is on disk. */
export interface LogFile {
  attempt: number;
  /** Absolute path; `stdout*.log` or `stderr*.log`. */
  path: string;
  bytes: number;
}

/** Everything that was looked at to judge a result. */
export interface EvidenceResult {
  markdown: string;
}

/** Leave out mutants that no test can notice. */
export interface DismissParams {
  id: string;
  /** Their ids (`JudgedMutant.id`); they must have survived. */
  mutants: string[];
}

/** Decide on hunks; accepted hunks are merged into the user's current files and buffers in the same request. */
export interface DecideParams {
  id: string;
  decisions: Decision[];
  /** The user confirmed changes to hooks, CI, editor or agent configuration, or package scripts. */
  includeFlagged?: boolean;
}

/** One decision: on all pending hunks without `path`, on the whole file without `hunk`. `pending` takes rejections back; it never changes a hunk that was accepted. */
export interface Decision {
  path?: string | null;
  hunk?: string | null;
  decision: "accept" | "reject" | "pending";
  /** Why the hunk is rejected; a follow-up sends it to the agent. */
  reason?: string | null;
  /** The user merged the hunk by hand and saved the file: accept it without changing a file. */
  mergedManually?: boolean;
}

/** The current state of every hunk, the conflicts, and the token to undo the accept. */
export interface DecideResult {
  hunks: Hunk[];
  /** Ids of the hunks that this request accepted or rejected, without concurrent decisions of other processes. */
  decided: string[];
  conflicts: Conflict[];
  undoToken?: string;
}

/** A hunk that conflicts with the user's file; it stays pending. The three sides are texts, in which invalid UTF-8 is replaced; a side is absent if it has no file. */
export interface Conflict {
  path: string;
  hunk: string;
  base?: string;
  result?: string;
  yours?: string;
  /** The user's path is a folder, or something else that is neither a file nor a link. */
  blocked?: boolean;
}

/** Undo an accept, or only some of its hunks. */
export interface UndoParams {
  undoToken: string;
  /** Ids of the hunks to undo; absent: all of the accept. */
  hunks?: string[] | null;
}

/** Edit a file of the result; `head` is the result from which it was read. */
export interface AmendParams {
  id: string;
  path: string;
  text: string;
  head: string;
}

/** The new result, and the hunks of the edited file; after an edit, the result is unverified until a check. */
export interface AmendResult {
  head: string;
  hunks: Hunk[];
}

/** Remove new tests that notice nothing from a result. */
export interface DropParams {
  id: string;
  /** Their ids (`MutationResult.idle`); empty: all of them. */
  tests?: string[];
}

/** The new result; the verdict is `unverified` until the checks run again. */
export interface DropResult {
  head: string;
  /** Ids of the tests that are gone. */
  dropped: string[];
  /** The changed or deleted files. */
  files: string[];
  /** Without `tests`: those that are in the base, or of which another parameter set may notice something. */
  kept: KeptTest[];
}

/** A test that notices nothing, and was not removed. */
export interface KeptTest {
  test: string;
  why: string;
}

/** Undo the last edit of a file of the result; `head` is the result from which it was read. */
export interface UndoAmendParams {
  id: string;
  path: string;
  head: string;
}

/** Send a result back with instructions. */
export interface ReplyParams {
  id: string;
  text: string;
}

/** The new delegation. */
export interface StartedResult {
  id: string;
}

/** Send a result back with the small changes of the code that no test noticed. */
export interface StrengthenParams {
  id: string;
  /** How often the agent is asked again after that, from 0 to 10; absent: as for the result. */
  rounds?: number | null;
}

/** Run a delegation again from its original base. */
export interface RetryParams {
  id: string;
  delegator?: string | null;
  /** Changes of the delegator for this delegation; absent: those of the first one, if the delegator is the same. */
  launch?: LaunchOverride | null;
  /** Both results are to be compared: they are in one group, and no other delegator takes over. */
  compare?: boolean;
}

/** Answer a permission request of an agent with the ID of an option. */
export interface AnswerParams {
  id: string;
  requestId: string;
  option: string;
  note?: string | null;
  /** Add the request's `rule` to the delegator, so that it is not asked again. */
  remember?: boolean;
}

/** Say something to the agent of a delegation in progress, in at most 64 KiB. */
export interface SayParams {
  id: string;
  text: string;
}

/** What happens to the message. */
export interface SayResult {
  messageId: string;
  delivery: "sent" | "waiting" | "kept";
}

/** Export a result as a branch, commit or patch; the user's branch and files do not change. */
export interface ExportParams {
  id: string;
  to: "branch" | "commit" | "patch";
  branch?: string | null;
  message?: string | null;
}

/** Where the exported result is. */
export interface ExportResult {
  branch?: string;
  commit?: string;
  patch?: string;
}

/** Commit the accepted files of a result on the user's branch, with the user's own git and its hooks. */
export interface CommitParams {
  id: string;
  /** Absent: the task, with the delegator, the verdict and how much is tested. */
  message?: string | null;
  /** Only return what would be committed. */
  dryRun?: boolean;
}

/** What was committed. */
export interface CommitResult {
  message: string;
  /** The accepted files that differ from the last commit. */
  files: string[];
  /** Those of them in which the user changed more than was accepted, which is committed with it. */
  mixed: string[];
  /** Absent for a dry run. */
  commit?: string;
}

/** How to restore the worktree. */
export interface RescueResult {
  rescueRef: string;
}

/** Every worktree of Understudy, and the removed ones that can be restored, newest first. */
export interface WorktreesResult {
  worktrees: WorktreeEntry[];
  rescues: RescueEntry[];
}

/** A worktree on disk. */
export interface WorktreeEntry {
  id: string;
  path: string;
  repo: string;
  bytes: number;
  state: "working" | "pending" | "decided" | "expired" | "orphaned";
  owner?: string;
}

/** A removed worktree that can be restored. */
export interface RescueEntry {
  rescueRef: string;
  /** The path of the worktree, before its removal and after a restore. */
  path: string;
  repo: string;
  /** When it was removed. */
  at: string;
  /** Files that could not be kept. */
  notes: string[];
}

/** Restore a removed worktree. */
export interface RestoreParams {
  rescueRef: string;
}

/** Where the restored worktree is. */
export interface RestoreResult {
  path: string;
}

/** Select runs, and the route that gets the proposed order. `since` is a date or time as in `ledger/read`; default: 90 days ago. */
export interface SuggestRoutesParams {
  /** Default: every recipe that has runs. */
  recipe?: string | null;
  /** A route for `recipe` only; default: `suggested-` and the name of the recipe. One that exists keeps its candidates with their conditions, in another order. */
  route?: string | null;
  since?: string | null;
  /** Let a delegator on other machines follow one on this machine, which then takes over from it. */
  remote?: boolean;
  workspace?: string | null;
  /** Only runs in this workspace. */
  onlyWorkspace?: boolean;
}

/** A suggestion for each recipe. */
export interface SuggestRoutesResult {
  suggestions: RouteSuggestion[];
}

/** The order of the delegators of one recipe that follows from the ledger, with the evidence. */
export interface RouteSuggestion {
  recipe: string;
  /** First the group of all runs, which the order is from; then those for each language and size. */
  groups: RouteGroup[];
  /** For `delegators/create`, or `delegators/update` if there is a `revision`; absent without evidence. */
  route?: Delegator;
  /** Of the route that it replaces. */
  revision?: string;
  /** What saving it changes in the user's file, as a unified diff; empty if nothing, or if the route was written by hand: `delegators/update` then says where. */
  diff?: string;
}

/** The candidates for one kind of work. */
export interface RouteGroup {
  /** LSP language ID of the first file; empty in the first group, for all languages. */
  language?: string;
  /** Absent in the first group, for all sizes, and where the size is not known. */
  size?: "small" | "medium" | "large";
  /** Those in the proposed order, then those that are left out. */
  candidates: RouteEvidence[];
}

/** How the runs of one delegator ended: all its attempts of one delegation are one run. */
export interface RouteEvidence {
  delegator: string;
  /** Those that say something about it: not what was cancelled, or failed because of this machine. */
  runs: number;
  /** Runs with a verified result; for recipes that answer in text, those that answered. */
  succeeded: number;
  /** The share of runs that succeed, from 0 to 1: the Wilson interval. */
  share: Interval;
  /** Hunks of its results that you accepted; of delegations that are still on disk, as is the next one. */
  accepted: number;
  /** Hunks of its results that you accepted or rejected. */
  decided: number;
  /** Sum of the known costs, a decimal number as text; absent if none is known. */
  costUsd?: string;
  /** Runs with an unknown cost. */
  costsUnknown?: number;
  /** `costUsd` for each run that succeeded. */
  successUsd?: string;
  medianSeconds: number;
  /** Of the median: the runs at the ends of the Wilson interval of one half. */
  seconds: Interval;
  /** Why it has this place, in one line. */
  reason?: string;
  /** Why it is left out. */
  skippedBecause?: string;
}

/** A value lies between these with a probability of 95 %. */
export interface Interval {
  low: number;
  high: number;
}

/** Select attempts and group them; `limit` is at most 1000, default 100. `since` and `until` (exclusive) are dates or times in RFC 3339; a date is its beginning in UTC. */
export interface LedgerParams {
  since?: string | null;
  until?: string | null;
  workspace?: string | null;
  delegator?: string | null;
  tool?: string | null;
  modelServer?: string | null;
  model?: string | null;
  recipe?: string | null;
  verdict?: string | null;
  /** Session of the agent that asked. */
  session?: string | null;
  by?: "day" | "month" | "delegator" | "tool" | "model_server" | "model" | "recipe" | "language" | "workspace" | "requester" | null;
  compare?: LedgerPrices | null;
  /** Also read the session files of Claude Code and Codex, and return the share of the work that was delegated; only with `since`, `until`, `workspace` and `session`. */
  share?: boolean;
  limit?: number | null;
  cursor?: string | null;
}

/** Prices to compare with, in US dollars per million tokens, as decimal numbers. */
export interface LedgerPrices {
  readUsd: string;
  writtenUsd: string;
  /** For tokens that were read from a provider's cache; default: `readUsd`. */
  cachedUsd?: string | null;
}

/** Attempts, newest first (`cursor` if more follow), and totals of all selected attempts. */
export interface LedgerResult {
  lines: LedgerLine[];
  totals: LedgerTotals;
  /** Empty without `by`. */
  groups: LedgerGroup[];
  cursor?: string;
  /** Only with `share`. */
  share?: LedgerShare;
}

/** One attempt, with what the user decided about the result. */
export interface LedgerLine {
  entry: LedgerEntry;
  /** Decisions on the hunks of its delegation; only on the last attempt, and while the delegation is on disk. */
  review?: Review;
}

/** An attempt that has ended. */
export interface LedgerEntry {
  version?: number;
  /** When the attempt ended. */
  at: string;
  /** The delegation. */
  id: string;
  /** Its number, from 1. */
  attempt: number;
  askedBy: AskedBy;
  recipe: string;
  /** LSP language ID of the first file; empty when there is none or it is not known. */
  language?: string;
  /** Bytes of the files of the work when it was requested; absent without files and in entries of earlier versions. */
  size?: number;
  workspace: string;
  /** The file that it was asked to write, for recipes that write one. */
  target?: string;
  delegator: string;
  tool?: string;
  modelServer?: string;
  model: string;
  usage: Usage;
  /** Decimal number as text. */
  costUsd?: string;
  /** `estimated` is only in entries of earlier versions. */
  costSource: "reported" | "configured" | "table" | "local" | "unknown" | "estimated";
  /** The date of the price table that the cost was computed with. */
  priceDate?: string;
  /** Whether the cost was computed from tokens that Understudy estimated. */
  costEstimated?: boolean;
  seconds: number;
  /** How the delegation ended, for its last attempt. */
  verdict?: string;
  /** Error kind, when the attempt failed. */
  failure?: string;
}

/** The totals of the attempts with one value, such as one delegator. */
export interface LedgerGroup {
  /** Empty for attempts that have no such value. */
  key: string;
  totals: LedgerTotals;
}

/** How much of the work was delegated, in tokens. Sessions of an agent that are themselves delegations count as delegated, not as an orchestrator's. */
export interface LedgerShare {
  /** From this time on, RFC 3339; without `since` in the request, the beginning of the first attempt, and 1970 for one session. */
  since: string;
  orchestrators: OrchestratorUsage[];
  /** Tokens that delegations read, of all that were read; absent when none was read. */
  readPercent?: number;
  /** The same for tokens that were written. */
  writtenPercent?: number;
  /** What could not be read, as sentences; the share is too high by it. */
  unread: string[];
}

/** What the sessions of one agent CLI used that a person works with. */
export interface OrchestratorUsage {
  tool: string;
  model: string;
  sessions: number;
  usage: Usage;
  /** What the delegated tokens would have cost on this model, at its list price; absent if that is not known. */
  delegatedUsd?: string;
  /** The day of that price. */
  priceDate?: string;
}

/** Select attempts and group them; `since` and `until` are those of `ledger/read`. */
export interface MetricsParams {
  since?: string | null;
  until?: string | null;
  workspace?: string | null;
  delegator?: string | null;
  model?: string | null;
  recipe?: string | null;
  by?: "day" | "month" | "delegator" | "tool" | "model_server" | "model" | "recipe" | "language" | "workspace" | "requester" | null;
}

/** Totals of the selected attempts, and of each group. */
export interface MetricsResult {
  totals: LedgerTotals;
  /** Empty without `by`. */
  groups: LedgerGroup[];
}

/** List the places for instructions. */
export interface InstructionsParams {
  /** Also list the places in this workspace. */
  workspace?: string | null;
}

/** The places, and the texts for other applications, which have no file for it. */
export interface InstructionsResult {
  targets: InstructionTarget[];
  /** For an agent with a command line. */
  text: string;
  /** For an application that has only the tools of the MCP server. */
  snippet: string;
}

/** One place where instructions can be. */
export interface InstructionTarget {
  name: string;
  title: string;
  path: string;
  state: InstructionState;
  /** Whether the agent's folder exists; where it does, the instructions are installed unless others are named. */
  found: boolean;
  problem?: string;
}

/** Install or remove instructions. `names`: default is to install where an agent's folder exists, and to remove wherever they are. */
export interface ChangeInstructionsParams {
  action: "install" | "uninstall";
  names?: string[] | null;
  workspace?: string | null;
  dryRun?: boolean;
  /** Also replace or remove instructions that someone has edited. */
  force?: boolean;
}

/** One entry for each place that was named or found. */
export interface ChangeInstructionsResult {
  changes: InstructionChange[];
}

/** What was done to one file, or would be. */
export interface InstructionChange {
  name: string;
  path: string;
  before: InstructionState;
  after: InstructionState;
  /** Unified diff of the change; empty if nothing changes. Bytes that are not UTF-8 are shown as U+FFFD. */
  diff?: string;
  /** Why the file stays as it is, and what to do. */
  problem?: string;
}

/** List the clients that the MCP server can be registered in. */
export interface McpClientsParams {
  /** Also list the files that clients have in this workspace. */
  workspace?: string | null;
  /** The name of the entry; default: `understudy`. */
  entry?: string | null;
}

/** The clients, those of the user first. */
export interface McpClientsResult {
  clients: McpClient[];
}

/** One client, and our entry in its configuration. */
export interface McpClient {
  name: string;
  title: string;
  path: string;
  state: RegistrationState;
  /** Whether the client's program or folder exists; if so, the server is registered unless others are named. */
  found: boolean;
  /** Whether the file belongs to the workspace. */
  workspace: boolean;
  problem?: string;
}

/** Register the MCP server in clients, or remove it. `names`: default is to register in all clients that are here, and to remove wherever it is registered. */
export interface ChangeMcpClientsParams {
  action: "install" | "uninstall";
  names?: string[] | null;
  /** Use the files that clients have in this workspace, not the user's own. */
  workspace?: string | null;
  /** The name of the entry; default: `understudy`. */
  entry?: string | null;
  /** Further sets of tools that the server lists. */
  tools?: "delegate-local"[] | null;
  dryRun?: boolean;
}

/** One entry for each client that was named or found. */
export interface ChangeMcpClientsResult {
  changes: McpClientChange[];
}

/** What was done to the configuration of one client, or would be. */
export interface McpClientChange {
  name: string;
  title: string;
  path: string;
  before: RegistrationState;
  after: RegistrationState;
  /** The commands of the client that do it, as argument vectors. */
  commands?: string[][];
  /** What the file at `path` needs, where the client has no command. */
  snippet?: string;
  /** Whether the file is created with the snippet, or removed because it has nothing else. */
  writes?: boolean;
  /** Why nothing was done, or not everything, and what to do. */
  problem?: string;
  /** What the user has to do: in the file, or before the client starts the server. */
  next?: string;
}

/** `understudy/event`: new events of one delegation, in `seq` order. */
export interface EventNotification {
  id: string;
  events: Event[];
}

/** `understudy/changed`: these collections changed; read them again. */
export interface ChangedNotification {
  collections: ("delegations" | "delegators" | "modelServers" | "recipes" | "trust")[];
}

/** `understudy/text`: the next piece of an answer that `text/run` waits for. */
export interface TextNotification {
  /** The name in the request. */
  stream: string;
  text: string;
  /** Whether the answer begins again with this piece, as its server failed or broke off: what came before it does not count. */
  restart?: boolean;
}

/** The commit the work starts from. */
export interface BaseEvent {
  type: "base";
  seq: number;
  at: string;
  attempt: number;
  commit: string;
  files: number;
  leftOut: string[];
}

/** The worktree was created. */
export interface WorktreeEvent {
  type: "worktree";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  seconds: number;
}

/** As many delegations as allowed were running. */
export interface QueuedEvent {
  type: "queued";
  seq: number;
  at: string;
  attempt: number;
  position: number;
}

/** An attempt begins. */
export interface StartedEvent {
  type: "started";
  seq: number;
  at: string;
  attempt: number;
  delegator: string;
  tool?: string;
  modelServer?: string;
  model: string;
  reason: string;
  /** The contents of the worktree when the attempt starts, as a commit; absent without a worktree. */
  commit?: string;
}

/** The program of an attempt's agent runs; of a delegator without a tool, the first command of its model. */
export interface AgentStartedEvent {
  type: "agent_started";
  seq: number;
  at: string;
  attempt: number;
  sandbox: Sandbox;
  /** Its pane, for one that runs in tmux. */
  terminal?: Pane;
}

/** The current activity, as a short text for people. */
export interface PhaseEvent {
  type: "phase";
  seq: number;
  at: string;
  attempt: number;
  text: string;
  /** The same as numbers, for an activity that is counted. */
  count?: Count;
}

/** The prompt was sent; its text is in `prompt.md`. */
export interface PromptEvent {
  type: "prompt";
  seq: number;
  at: string;
  attempt: number;
  tokens: number;
}

/** More of the agent's answer. */
export interface TextEvent {
  type: "text";
  seq: number;
  at: string;
  attempt: number;
  text: string;
}

/** More of the agent's reasoning. */
export interface ThinkingEvent {
  type: "thinking";
  seq: number;
  at: string;
  attempt: number;
  text: string;
}

/** The agent uses one of its tools. */
export interface ToolCallEvent {
  type: "tool_call";
  seq: number;
  at: string;
  attempt: number;
  callId: string;
  name: string;
  title: string;
  input: unknown;
}

/** The output of the tool. */
export interface ToolResultEvent {
  type: "tool_result";
  seq: number;
  at: string;
  attempt: number;
  callId: string;
  ok: boolean;
  output: string;
  truncatedBytes?: number;
}

/** The agent reports that it changed a file. */
export interface FileEvent {
  type: "file";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  change: "added" | "modified" | "deleted" | "renamed";
}

/** The agent's current plan. */
export interface PlanEvent {
  type: "plan";
  seq: number;
  at: string;
  attempt: number;
  entries: unknown[];
}

/** What the attempt has used so far; the last report counts. */
export interface UsageEvent {
  type: "usage";
  seq: number;
  at: string;
  attempt: number;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  turns: number;
  toolCalls: number;
  costUsd?: string;
  /** Where the cost is from; absent: the agent reported it. */
  costSource?: "reported" | "configured" | "table" | "local" | "unknown";
  /** The date of the price table, where it was used. */
  priceDate?: string;
  /** Whether the tokens are an estimate. */
  estimated?: boolean;
}

/** The tool's own session, for a follow-up. */
export interface SessionEvent {
  type: "session";
  seq: number;
  at: string;
  attempt: number;
  sessionId: string;
}

/** The agent asks the user for permission; the fields are those of `PermissionRequest`. */
export interface PermissionEvent {
  type: "permission";
  seq: number;
  at: string;
  attempt: number;
  requestId: string;
  title: string;
  detail: string;
  options: PermissionOption[];
  tool?: string;
  kind?: "read" | "edit" | "execute" | "fetch" | "other" | "question";
  command?: string;
  paths?: string[];
  deadline?: string;
  deadlineAction: string;
  rule?: PermissionRule;
}

/** The user, a rule or the deadline answered. */
export interface PermissionAnsweredEvent {
  type: "permission_answered";
  seq: number;
  at: string;
  attempt: number;
  requestId: string;
  option: string;
  by: string;
}

/** The user said something to the agent while the delegation was in progress. */
export interface UserMessageEvent {
  type: "user_message";
  seq: number;
  at: string;
  attempt: number;
  messageId: string;
  text: string;
  by: string;
  delivery: "sent" | "waiting" | "kept";
}

/** The agent got the message, or a reply to this delegation took it along. */
export interface MessageDeliveredEvent {
  type: "message_delivered";
  seq: number;
  at: string;
  attempt: number;
  messageId: string;
}

/** The agent of another delegation of the group sent a message to this one's. */
export interface AgentMessageEvent {
  type: "agent_message";
  seq: number;
  at: string;
  attempt: number;
  messageId: string;
  /** The id of its delegation. */
  sender: string;
  kind: "message" | "ask" | "reply" | "broadcast";
  text: string;
  /** The id of the message that this one answers. */
  replyTo?: string;
}

/** The delegation joined a group: its agent delegates, or another result is to be compared with it. */
export interface GroupedEvent {
  type: "grouped";
  seq: number;
  at: string;
  attempt: number;
  groupId: string;
}

/** The attempt failed; its partial work is kept. */
export interface AttemptFailedEvent {
  type: "attempt_failed";
  seq: number;
  at: string;
  attempt: number;
  error: ErrorInfo;
  /** Whether the same delegator is tried again. */
  willRetry: boolean;
  /** The delegator of the next attempt. */
  nextDelegator?: string;
  /** Whether the next attempt continues with the files of this one; otherwise it begins with a fresh worktree. */
  continues?: boolean;
  waitSeconds?: number;
}

/** The partial work of the attempt, as a commit. */
export interface CheckpointEvent {
  type: "checkpoint";
  seq: number;
  at: string;
  attempt: number;
  commit: string;
  /** Where the whole worktree is kept, if the next attempt has a fresh one. */
  rescueRef?: string;
  /** What the attempt changed since it began, at most 100 paths; only where other delegators may take over. */
  files?: string[];
}

/** The result: a commit and its files, or a text. */
export interface ResultEvent {
  type: "result";
  seq: number;
  at: string;
  attempt: number;
  head?: string;
  files: FileStat[];
  text?: string;
  summary?: string;
  /** How many hunks there are to decide on. */
  hunks?: number;
}

/** A check runs. */
export interface CheckStartedEvent {
  type: "check_started";
  seq: number;
  at: string;
  attempt: number;
  name: string;
}

/** A check ran; the fields are those of `CheckResult`. */
export interface CheckFinishedEvent {
  type: "check_finished";
  seq: number;
  at: string;
  attempt: number;
  name: string;
  argv: string[];
  exitCode?: number;
  seconds: number;
  judgingSeconds?: number;
  tree: string;
  passed?: number;
  failed?: number;
  skipped?: number;
  outputTail: string;
  mutation?: MutationResult;
  flaky: boolean;
  flakyTests?: string[];
  failsOnBase: boolean;
  checkoutFiles?: string[];
  changedFiles?: string[];
  ok: boolean;
  required: boolean;
  sandbox?: Sandbox;
  base?: BaseComparison;
  tampered?: string[];
}

/** Evidence for changed places was found, or corrected, while checks run; `finished` has the last word. */
export interface PlacesJudgedEvent {
  type: "places_judged";
  seq: number;
  at: string;
  attempt: number;
  places: ChangedPlace[];
  /** How many changed places the result has. */
  total: number;
}

/** A result was compared with the one before it; the fields are those of `Round`. */
export interface RoundJudgedEvent {
  type: "round_judged";
  seq: number;
  at: string;
  attempt: number;
  number: number;
  killed: number;
  viable: number;
  kept: boolean;
  why?: string;
}

/** A message for the user. */
export interface NoteEvent {
  type: "note";
  seq: number;
  at: string;
  attempt: number;
  level: "info" | "warning" | "error";
  text: string;
  /** Whether the agent's text since its last turn does not count: the answer begins again. */
  beginsAgain?: boolean;
  /** What to do, as a sentence for the command line. */
  hint?: string;
  /** The same for a button; only Understudy sets it. */
  remedy?: Remedy;
}

/** The end of a run, exactly one; `delegations/check` adds another after the checks ran again. */
export interface FinishedEvent {
  type: "finished";
  seq: number;
  at: string;
  attempt: number;
  verdict: Verdict;
  reservations: Reservation[];
  /** What the reservations are about; a reservation may have none, or several. */
  reservationFacts?: ReservationFact[];
  /** The changed places of the result, those without evidence first, at most 200; none if no required check passed. */
  places?: ChangedPlace[];
  error?: ErrorInfo;
}

/** The user accepted all changed tests that were the only reservation, or no longer accepts them. */
export interface ConfirmedEvent {
  type: "confirmed";
  seq: number;
  at: string;
  attempt: number;
  /** How many tests were confirmed; 0: the question is open again. */
  tests: number;
}

/** The user decided on a hunk. */
export interface DecidedEvent {
  type: "decided";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  hunk: string;
  decision: "accept" | "reject" | "pending";
  /** The previous decision on the hunk, so that counts follow from the events alone. `superseded`: the follow-up that was to continue it ended too early; the hunk is pending again. */
  was?: "accept" | "reject" | "pending" | "superseded";
  /** An accept failed because the hunk conflicts with the user's file; the hunk stays pending. */
  conflict?: boolean;
  reason?: string;
  by: string;
}

/** Accepted hunks are in the user's files. */
export interface AppliedEvent {
  type: "applied";
  seq: number;
  at: string;
  attempt: number;
  paths: string[];
  undoToken: string;
  by: string;
}

/** An accept was undone. */
export interface UndoneEvent {
  type: "undone";
  seq: number;
  at: string;
  attempt: number;
  undoToken: string;
}

/** The result was edited by hand. */
export interface AmendedEvent {
  type: "amended";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  head: string;
  /** Hunk of the new result → the same hunk before, whose decision is kept. Every other hunk is pending. */
  carried?: Record<string, string>;
  /** Hunks of the new result that contain the edit. */
  edited?: string[];
  /** The result commit of the edit that this one undoes: the file is as it was before it. */
  undoes?: string;
  /** The counts after the edit. */
  review?: Review;
}

/** The worktree was removed; the rescue ref restores it. */
export interface DiscardedEvent {
  type: "discarded";
  seq: number;
  at: string;
  attempt: number;
  rescueRef: string;
}

/** The user dismissed a run that needed their attention. */
export interface DismissedEvent {
  type: "dismissed";
  seq: number;
  at: string;
  attempt: number;
  by: string;
}

/** A follow-up continues the pending hunks. */
export interface SupersededEvent {
  type: "superseded";
  seq: number;
  at: string;
  attempt: number;
  by: string;
}

/** An event of a newer version, or a line that cannot be decoded. */
export interface UnknownEvent {
  type: "unknown";
  seq: number;
  at: string;
  attempt: number;
  original: string;
}

/** An event of a delegation; `type` is its kind. */
export type Event =
  | BaseEvent
  | WorktreeEvent
  | QueuedEvent
  | StartedEvent
  | AgentStartedEvent
  | PhaseEvent
  | PromptEvent
  | TextEvent
  | ThinkingEvent
  | ToolCallEvent
  | ToolResultEvent
  | FileEvent
  | PlanEvent
  | UsageEvent
  | SessionEvent
  | PermissionEvent
  | PermissionAnsweredEvent
  | UserMessageEvent
  | MessageDeliveredEvent
  | AgentMessageEvent
  | GroupedEvent
  | AttemptFailedEvent
  | CheckpointEvent
  | ResultEvent
  | CheckStartedEvent
  | CheckFinishedEvent
  | PlacesJudgedEvent
  | RoundJudgedEvent
  | NoteEvent
  | FinishedEvent
  | ConfirmedEvent
  | DecidedEvent
  | AppliedEvent
  | UndoneEvent
  | AmendedEvent
  | DiscardedEvent
  | DismissedEvent
  | SupersededEvent
  | UnknownEvent;

/** Every request with its parameters and its result. */
export interface Requests {
  /** Return the version of Understudy and of its protocol. */
  "understudy/version": { params: NoParams; result: VersionResult };
  /** Check everything that a delegation needs, and return how to fix what is missing. */
  "understudy/doctor": { params: DoctorParams; result: DoctorResult };
  /** Return what runs, what waits for the user, and what was spent today. */
  "understudy/status": { params: WorkspaceParams; result: StatusResult };
  /** Let new worktrees of a workspace link to folders, get copies of files, or run a command that sets them up. */
  "understudy/remedies/apply": { params: RemedyParams; result: EmptyResult };
  /** Write a commented configuration file with the test runners and agent CLIs that were found. */
  "understudy/configuration/init": { params: StarterParams; result: StarterResult };
  /** Import the configuration of another delegation tool, or return what that would write. */
  "understudy/configuration/import": { params: ImportParams; result: ImportResult };
  /** List the supported agent CLIs, installed or not, with their versions. */
  "understudy/tools/list": { params: ToolsParams; result: ToolsResult };
  /** Write a commented definition of an agent CLI that Understudy does not know. */
  "understudy/tools/create": { params: ToolCreateParams; result: ToolFile };
  /** Trust a workspace, revoke its trust, or return whether it is trusted. */
  "understudy/workspace/trust": { params: TrustParams; result: TrustResult };
  /** List the recipes that apply to a file. */
  "understudy/recipes/list": { params: RecipesParams; result: RecipesResult };
  /** List the agents and skills that a delegation can name, of the workspace, of the user and built in. */
  "understudy/agents/list": { params: WorkspaceParams; result: AgentsResult };
  /** List the delegators with where each is configured, and the problems of the configuration. */
  "understudy/delegators/list": { params: WorkspaceParams; result: DelegatorsResult };
  /** Return one delegator. */
  "understudy/delegators/get": { params: NameParams; result: DelegatorEntry };
  /** Create a delegator: one file in the folder of its scope. */
  "understudy/delegators/create": { params: DelegatorCreateParams; result: DelegatorEntry };
  /** Create a delegator for an agent CLI, with a generated unique name. */
  "understudy/delegators/createFromTool": { params: DelegatorFromToolParams; result: DelegatorEntry };
  /** Create a delegator from an agent profile, which is kept; or return what would be written. */
  "understudy/delegators/importProfile": { params: ImportProfileParams; result: ImportResult };
  /** Return a delegator as an agent profile, or several as a workflow of AGNT. */
  "understudy/delegators/exportProfile": { params: ExportProfileParams; result: ExportProfileResult };
  /** Replace a delegator; a stale revision is a conflict. */
  "understudy/delegators/update": { params: DelegatorUpdateParams; result: DelegatorEntry };
  /** End the pauses of a delegator that failed again and again, and forget its failures. */
  "understudy/delegators/reset": { params: NameParams; result: DelegatorEntry };
  /** Remove a delegator. */
  "understudy/delegators/delete": { params: DeleteParams; result: EmptyResult };
  /** Choose the delegator that a recipe, or everything else, uses by default. */
  "understudy/delegators/setDefault": { params: DefaultParams; result: DefaultResult };
  /** Test a delegator, saved or not: its tool or its server, key and model, and a short round trip. */
  "understudy/delegators/test": { params: DelegatorTestParams; result: ConnectionTest };
  /** List the model servers with where each is configured. */
  "understudy/modelServers/list": { params: WorkspaceParams; result: ModelServersResult };
  /** Return one model server. */
  "understudy/modelServers/get": { params: NameParams; result: ModelServerEntry };
  /** Create a model server. */
  "understudy/modelServers/create": { params: ModelServerCreateParams; result: ModelServerEntry };
  /** Replace a model server; a stale revision is a conflict. */
  "understudy/modelServers/update": { params: ModelServerUpdateParams; result: ModelServerEntry };
  /** Remove a model server. */
  "understudy/modelServers/delete": { params: DeleteParams; result: EmptyResult };
  /** Test a model server: reach it and use its key. */
  "understudy/modelServers/test": { params: NameParams; result: ConnectionTest };
  /** List the kinds of model servers, their usual addresses, and which run on this machine. */
  "understudy/modelServers/presets": { params: NoParams; result: PresetsResult };
  /** List the models of a server. */
  "understudy/modelServers/models": { params: NameParams; result: ModelsResult };
  /** Store a server's API key in the OS keyring or a file with mode 0600, and refer to it. */
  "understudy/modelServers/setKey": { params: SetKeyParams; result: EmptyResult };
  /** List the checks with where each is configured, and those that the project's files suggest. */
  "understudy/checks/list": { params: WorkspaceParams; result: ChecksResult };
  /** Create a check: one file in the folder of its scope. */
  "understudy/checks/create": { params: CheckCreateParams; result: CheckEntry };
  /** Remove a check. */
  "understudy/checks/delete": { params: DeleteParams; result: EmptyResult };
  /** Run a check, saved or not, on the current files in a worktree of its own. */
  "understudy/checks/test": { params: CheckTestParams; result: CheckTrial };
  /** List the schedules with their next and their last runs. */
  "understudy/schedules/list": { params: NoParams; result: SchedulesResult };
  /** Create a schedule; its first run is at the next of its times. */
  "understudy/schedules/create": { params: ScheduleCreateParams; result: ScheduleEntry };
  /** Remove a schedule; what it started stays. */
  "understudy/schedules/delete": { params: DeleteParams; result: EmptyResult };
  /** Pause a schedule, or resume it. */
  "understudy/schedules/pause": { params: SchedulePauseParams; result: ScheduleEntry };
  /** Start the work of a schedule now, also while it is paused; its times stay as they are. */
  "understudy/schedules/run": { params: ScheduleNameParams; result: ScheduleRun };
  /** Start what is due. Each time of a schedule is served once, however many processes ask for it. */
  "understudy/schedules/serve": { params: NoParams; result: ScheduleServeResult };
  /** Let a timer of the system start what is due, or say what would be written. */
  "understudy/schedules/install": { params: ScheduleInstallParams; result: ScheduleInstallResult };
  /** List the receivers of notifications with the outcome of the last notifications. */
  "understudy/notifications/list": { params: NoParams; result: NotificationsResult };
  /** Create a receiver of notifications; nothing is sent to it yet. */
  "understudy/notifications/create": { params: NotificationCreateParams; result: NotificationEntry };
  /** Remove a receiver of notifications. */
  "understudy/notifications/delete": { params: DeleteParams; result: EmptyResult };
  /** Send a notification to a receiver now, whatever its events and workspaces are; raise why it was not taken. */
  "understudy/notifications/test": { params: NotificationTestParams; result: NotificationTestResult };
  /** Return exactly what `text/run` would send; refused if the delegator runs an agent CLI. */
  "understudy/text/preview": { params: TextParams; result: PreviewResult };
  /** Send a text recipe to a model server from this process and return the answer; nothing else is started. */
  "understudy/text/run": { params: TextParams; result: TextResult };
  /** Start a delegation; return at once, with the chosen delegator and the reason. */
  "understudy/delegations/start": { params: StartParams; result: StartResult };
  /** Return exactly what a start would send, without sending it. */
  "understudy/delegations/preview": { params: StartParams; result: PreviewResult };
  /** Return the current state of one delegation. */
  "understudy/delegations/get": { params: IdParams; result: Delegation };
  /** List delegations, newest first, page by page. */
  "understudy/delegations/list": { params: ListParams; result: ListResult };
  /** Wait for the end of a delegation; a timeout is not an error: check `state`. */
  "understudy/delegations/wait": { params: WaitParams; result: Delegation };
  /** Return events after a sequence number; may wait for the next one. */
  "understudy/delegations/events": { params: EventsParams; result: EventsResult };
  /** Start sending events: missed ones first, then live ones, each exactly once. */
  "understudy/delegations/subscribe": { params: SubscribeParams; result: EmptyResult };
  /** Stop sending events. */
  "understudy/delegations/unsubscribe": { params: UnsubscribeParams; result: EmptyResult };
  /** Cancel a delegation within five seconds; its partial work is kept. Idempotent. A run cancels only its own. */
  "understudy/delegations/cancel": { params: CancelParams; result: Delegation };
  /** Return the command that shows the terminal of an agent that runs in tmux. */
  "understudy/delegations/attach": { params: AttachParams; result: AttachResult };
  /** Create an empty group of delegations. */
  "understudy/groups/create": { params: GroupCreateParams; result: Group };
  /** Start several tasks as one group, from one base and with one budget; return at once. */
  "understudy/groups/start": { params: GroupStartParams; result: GroupStartResult };
  /** Return a group with the IDs of its members. */
  "understudy/groups/get": { params: IdParams; result: Group };
  /** Return the newest groups, each with how many members are in which state. */
  "understudy/groups/list": { params: GroupListParams; result: GroupListResult };
  /** Wait for the end of every member; a timeout is not an error: check each `state`. */
  "understudy/groups/wait": { params: GroupWaitParams; result: GroupResult };
  /** Cancel every unfinished member; its partial work is kept. Idempotent. A run cancels only what it delegated. */
  "understudy/groups/cancel": { params: IdParams; result: GroupResult };
  /** Return the results of a group side by side, hunk by hunk: where they agree, where they differ, what is accepted. */
  "understudy/groups/compare": { params: IdParams; result: CompareResult };
  /** Return the delegations that wait for a slot, in the order in which they start. */
  "understudy/queue/get": { params: NoParams; result: QueueResult };
  /** Let nothing that waits start, or let it start again. */
  "understudy/queue/pause": { params: QueuePauseParams; result: QueueResult };
  /** Let a waiting delegation start earlier or later than others. */
  "understudy/queue/move": { params: QueueMoveParams; result: QueueResult };
  /** Return the result as files and hunks. */
  "understudy/delegations/diff": { params: IdParams; result: DiffResult };
  /** Return one file of the base or of the result. */
  "understudy/delegations/file": { params: FileParams; result: FileResult };
  /** Return the prompt as it was sent, and the paths of the logs of the agent's program. */
  "understudy/delegations/logs": { params: IdParams; result: LogsResult };
  /** Run the checks of a result again and update its verdict. */
  "understudy/delegations/check": { params: IdParams; result: Delegation };
  /** Return everything that was looked at to judge a result, as one page with commands to repeat it. */
  "understudy/delegations/evidence": { params: IdParams; result: EvidenceResult };
  /** Leave out mutants that no test can notice from later judgements in this workspace. */
  "understudy/delegations/dismiss": { params: DismissParams; result: EmptyResult };
  /** Accept hunks, merging them into the user's current files and buffers, or reject them with a reason. */
  "understudy/delegations/decide": { params: DecideParams; result: DecideResult };
  /** Undo an accept; keep later edits. */
  "understudy/delegations/undo": { params: UndoParams; result: EmptyResult };
  /** Edit a file of the result; it is split into hunks again. */
  "understudy/delegations/amend": { params: AmendParams; result: AmendResult };
  /** Remove new tests that notice nothing from the result; amending the file restores them. */
  "understudy/delegations/drop": { params: DropParams; result: DropResult };
  /** Record that a finished run no longer needs the user's attention, until its checks run again. */
  "understudy/delegations/dismissRun": { params: IdParams; result: EmptyResult };
  /** Undo the last edit of a file of the result; the decisions on it are as before the edit. */
  "understudy/delegations/undoAmend": { params: UndoAmendParams; result: AmendResult };
  /** Send a result back with instructions: a new delegation in the same worktree and tool session. */
  "understudy/delegations/reply": { params: ReplyParams; result: StartedResult };
  /** Send a result back for tests that notice the small changes of the code that no test noticed. */
  "understudy/delegations/strengthen": { params: StrengthenParams; result: StartedResult };
  /** Run a delegation again from its original base, optionally with another delegator. */
  "understudy/delegations/retry": { params: RetryParams; result: StartedResult };
  /** Answer a permission request of an agent; the first valid answer counts, a second one is a conflict. */
  "understudy/delegations/answer": { params: AnswerParams; result: EmptyResult };
  /** Say something to the agent of a delegation in progress; what it does not get goes along with the next reply. */
  "understudy/delegations/say": { params: SayParams; result: SayResult };
  /** Export a result, without rejected hunks, as a branch, commit or patch. */
  "understudy/delegations/export": { params: ExportParams; result: ExportResult };
  /** Commit exactly the accepted files of a result, with the evidence in the message; what else is changed stays. */
  "understudy/delegations/commit": { params: CommitParams; result: CommitResult };
  /** Discard a result and its worktree; the rescue ref restores it byte for byte. */
  "understudy/delegations/discard": { params: IdParams; result: RescueResult };
  /** List the worktrees on disk with their owners. */
  "understudy/worktrees/list": { params: NoParams; result: WorktreesResult };
  /** Remove a worktree by its ID in the list; the rescue ref restores it. */
  "understudy/worktrees/remove": { params: IdParams; result: RescueResult };
  /** Restore a removed worktree at its path. */
  "understudy/worktrees/restore": { params: RestoreParams; result: RestoreResult };
  /** Suggest the order of the delegators of each recipe, from how their recorded runs ended; nothing is changed. */
  "understudy/routes/suggest": { params: SuggestRoutesParams; result: SuggestRoutesResult };
  /** List what was delegated, newest first, with totals of tokens, costs and outcomes. */
  "understudy/ledger/read": { params: LedgerParams; result: LedgerResult };
  /** Return figures of what was delegated: outcomes, times, hand-overs, tokens and costs, also of each group. */
  "understudy/metrics/read": { params: MetricsParams; result: MetricsResult };
  /** List where other agents can be told when and how to delegate, and the text. */
  "understudy/instructions/list": { params: InstructionsParams; result: InstructionsResult };
  /** Install or remove these instructions, in files of other agents or of a workspace. */
  "understudy/instructions/change": { params: ChangeInstructionsParams; result: ChangeInstructionsResult };
  /** List the agents and editors that the MCP server can be registered in, and whether it is. */
  "understudy/mcpClients/list": { params: McpClientsParams; result: McpClientsResult };
  /** Register the MCP server in agents and editors with their own commands, or remove it. */
  "understudy/mcpClients/change": { params: ChangeMcpClientsParams; result: ChangeMcpClientsResult };
}

/** Every notification of the server with its parameters. */
export interface Notifications {
  /** `understudy/event`: new events of one delegation, in `seq` order. */
  "understudy/event": EventNotification;
  /** `understudy/changed`: these collections changed; read them again. */
  "understudy/changed": ChangedNotification;
  /** `understudy/text`: the next piece of an answer that `text/run` waits for. */
  "understudy/text": TextNotification;
}
