// The wire contract, generated from the method table of the sidecar. Do not edit by hand: run `make generate`.
// Parameters are checked strictly; in results and events ignore fields that are not listed here.

export const PROTOCOL_VERSION = 1;

/** Where a configured thing comes from; later scopes override earlier ones. */
export const SCOPES = [
  /** Shipped with Understudy. */
  "builtin",
  /** The person's own configuration folder. */
  "user",
  /** The repository's `.understudy` folder; counts only while the workspace is trusted. */
  "workspace",
] as const;
export type Scope = (typeof SCOPES)[number];

/** Where a delegation is. */
export const STATES = [
  /** Its base and its tree are being made. */
  "preparing",
  /** It waits for a slot; no process belongs to it. */
  "queued",
  /** An attempt is at work. */
  "running",
  /** An attempt asked a person and waits for the answer. */
  "waiting",
  /** No agent process lives any more; the result is being checked. */
  "checking",
  /** It has a verdict. Nothing runs; decisions may still be recorded. */
  "finished",
] as const;
export type State = (typeof STATES)[number];

/** What a finished delegation came to: of the rules below, the first that fits. */
export const VERDICTS = [
  /** A text recipe answered. */
  "answered",
  /** At least one required check passed on exactly this result, and there is no reservation. */
  "verified",
  /** There is a result, and a reason not to call it verified. */
  "unverified",
  /** A required check failed twice on the result and passes on the base. */
  "checks_failed",
  /** The agent ended well and changed nothing. */
  "no_changes",
  /** The last attempt failed; what it left is kept. */
  "failed",
  /** A person stopped it; what it left is kept. */
  "cancelled",
  /** A time limit passed; what it left is kept. */
  "timed_out",
  /** A limit on tokens, turns or money was reached; what it left is kept. */
  "budget_exhausted",
  /** Its worker was gone; what it left is kept. */
  "interrupted",
] as const;
export type Verdict = (typeof VERDICTS)[number];

/** A reason why a result is not called verified. The list is closed. */
export const RESERVATIONS = [
  /** No required check ran. */
  "no_checks",
  /** New tests ran, and nothing shows that they can fail. */
  "no_control",
  /** A check was red once and green once on the same tree. */
  "flaky",
  /** A check is red on the result and was red before the work began. */
  "fails_on_base",
  /** The result changes a file that configures a check. */
  "check_changed",
  /** The result touches files that the recipe does not write, or removes tests. */
  "outside_scope",
  /** A check loaded files of the user's checkout instead of the result. */
  "wrong_tree",
  /** With the code under test broken on purpose, every new test still passes. */
  "nothing_bitten",
  /** The journal held bytes that its worker did not write. */
  "tampered",
] as const;
export type Reservation = (typeof RESERVATIONS)[number];

/** The closed list of error kinds; the value is what travels on the wire. */
export const ERROR_KINDS = [
  /** A request's parameters have the wrong shape or contradict each other. */
  "invalid_params",
  /** No method of this name is served. */
  "unknown_method",
  /** No delegator of this name is configured; `names` lists near ones. */
  "unknown_delegator",
  /** No model server of this name is configured. */
  "unknown_model_server",
  /** No agent CLI of this name is known. */
  "unknown_tool",
  /** No recipe of this name exists. */
  "unknown_recipe",
  /** No route of this name is configured. */
  "unknown_route",
  /** No check of this name is configured. */
  "unknown_check",
  /** No delegation has this id. */
  "unknown_delegation",
  /** No agent definition of this name exists. */
  "unknown_agent",
  /** The delegator names a remote agent and cannot run here. */
  "remote_only_delegator",
  /** A configuration file or value cannot be used as it is. */
  "config_invalid",
  /** A person wrote this file by hand, so no face rewrites it. */
  "not_editable",
  /** Somebody else changed or answered it first; read again and decide again. */
  "conflict",
  /** The name is taken. */
  "already_exists",
  /** Nothing of this workspace may run before a person trusts it. */
  "untrusted_workspace",
  /** The state to start from cannot be read. */
  "base_unavailable",
  /** No isolated tree can be made of this folder. */
  "isolation_unavailable",
  /** A sandbox was required and this machine has none. */
  "sandbox_unavailable",
  /** A program that is needed is not installed. */
  "tool_missing",
  /** A program ended with an error. */
  "tool_crashed",
  /** A program ended without saying that it had finished. */
  "tool_no_result",
  /** The server refused the key. */
  "auth_failed",
  /** The account behind the key has no credit left. */
  "quota_exhausted",
  /** Too many requests; trying later helps. */
  "rate_limited",
  /** The server is busy or failing; trying later helps. */
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
  /** It ended well and said nothing where a result is due. */
  "empty_output",
  /** What came back cannot be parsed. */
  "malformed_output",
  /** A limit on tokens, turns or money was reached. */
  "budget_exhausted",
  /** A person stopped it. */
  "cancelled",
  /** Its worker was gone before the end. */
  "interrupted",
  /** The operating system or a policy forbids it. */
  "permission_denied",
  /** A key may not be used or text may not leave this way. */
  "secret_withheld",
  /** A path leads outside the folder it must stay in. */
  "path_escape",
  /** The file to be written already exists. */
  "target_exists",
  /** No file was left to read. */
  "corpus_empty",
  /** The files together are above the limit. */
  "corpus_too_large",
  /** One file is above the limit. */
  "file_too_large",
  /** There is nothing to work on. */
  "input_empty",
  /** A change cannot be merged into what is there now. */
  "apply_conflict",
  /** The state folder cannot be used. */
  "store_unavailable",
  /** The disk under the state folder is full. */
  "store_full",
  /** A fault of Understudy itself; please report it. */
  "internal",
] as const;
export type ErrorKind = (typeof ERROR_KINDS)[number];

/** Where a hunk stands in review. */
export const HUNK_STATES = [
  /** Not decided. */
  "pending",
  /** Merged into the user's files. */
  "accepted",
  /** Turned down. */
  "rejected",
  /** A follow-up took it over. */
  "superseded",
] as const;
export type HunkState = (typeof HUNK_STATES)[number];

/** No parameters. */
export type Nothing = Record<string, never>;

/** Which version this is, and which contract it speaks. */
export interface VersionResult {
  version: string;
  protocolVersion: number;
}

/** How this installation is. */
export interface DoctorResult {
  checks: DoctorCheck[];
}

/** One thing looked at. */
export interface DoctorCheck {
  name: string;
  ok: boolean;
  message: string;
  hint?: string;
}

/** Which agent CLIs are there; `refresh` asks each of them for its version again. */
export interface ToolsParams {
  refresh?: boolean;
}

/** Every agent CLI that Understudy knows, found or not. */
export interface ToolsResult {
  tools: ToolEntry[];
  /** What a delegator without a tool (our own loop on a model server) may set. */
  own: Honoured;
}

/** An agent CLI that Understudy knows, found on this machine or not. */
export interface ToolEntry {
  name: string;
  displayName: string;
  found: boolean;
  path?: string;
  version?: string;
  /** Whether this version of Understudy has a runner for it. */
  runnable: boolean;
  modes: string[];
  models?: string[];
  /** What its delegators may set; absent where there is no runner for it. */
  honours?: Honoured;
  problems: Problem[];
}

/** What can be set for a delegator and has an effect there; anything else is refused, never ignored. */
export interface Honoured {
  /** Fields of `Launch`. */
  launch: string[];
  /** Fields of `Limits`; those on turns, tokens and money of a program with plain output (`generic`) excepted. */
  limits: string[];
  /** `modelProperties` are sent along. */
  properties: boolean;
}

/** Something wrong with a configuration, and where. */
export interface Problem {
  severity: "error" | "warning" | "information";
  message: string;
  hint?: string;
  location?: Location;
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

/** Trust a workspace, or withdraw it; without `trusted`, only ask how it stands. */
export interface TrustParams {
  /** URI or absolute path of the workspace's folder. */
  workspace: string;
  trusted?: boolean | null;
  /** `seen` of the answer that was shown; when it changed meanwhile, nothing is recorded (`conflict`). */
  seen?: string | null;
}

/** How the workspace stands. */
export interface TrustResult {
  trusted: boolean;
  /** What trusting it allows, in words. */
  allows: string[];
  /** What is different from what was trusted before. */
  changed: string[];
  /** Stands for exactly what is listed; pass it back with `trusted`. */
  seen: string;
}

/** The recipes that apply to a file; absent: all of the person's own. */
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
  route?: string;
  fits: Fits;
  scope: Scope;
  location?: Location;
  /** The instructions, in Markdown; what the person adds and the files follow them. */
  prompt?: string;
}

/** Where a recipe is offered. */
export interface Fits {
  /** Language ids as editors use them (`python`, `typescriptreact`); absent: every language. */
  languages?: string[] | null;
  /** What has to be under the cursor: a whole file, a selection, a diagnostic. */
  on: ("file" | "selection" | "diagnostic")[];
}

/** A list as seen from a workspace; absent: the person's own configuration only. */
export interface WorkspaceParams {
  workspace?: string | null;
}

/** Every delegator, and what is wrong with the configuration. */
export interface DelegatorsResult {
  delegators: DelegatorEntry[];
  problems: Problem[];
}

/** A delegator with where it comes from. */
export interface DelegatorEntry {
  delegator: Delegator;
  scope: Scope;
  /** Changes with every change of its file; pass it back to `update` and `delete` to be told of a conflict. */
  revision: string;
  editable: boolean;
  location?: Location;
  state: EntryState;
}

/** A named pairing of an agent CLI, or of our own loop and a model server, with a model and launch options. */
export interface Delegator {
  /** What it is called in requests, defaults and lists; also its file's name. */
  name: string;
  /** What people read in lists. */
  displayName?: string | null;
  /** Agent CLI; absent: our own loop on `model_server`. */
  tool?: string | null;
  /** Where the models are: of our own loop, or of a tool that can be pointed at one. */
  modelServer?: string | null;
  /** Model id as the tool or the server spells it; empty: the tool's own default. */
  model?: string;
  /** Sent with each request to a model server, as they are (`temperature`, …). */
  modelProperties?: Record<string, unknown> | null;
  /** An agent that the tool itself has defined. */
  agent?: string | null;
  /** How the tool is started. */
  launch?: Launch | null;
  /** Variables of the tool's process; a value that is a key is referred to, never written down. */
  env?: Record<string, string | EnvReference> | null;
  /** Bounds of each delegation; what is not said here is taken from the configuration. */
  limits?: Limits | null;
  /** `local`: what is sent stays on this machine, and when that cannot be, the delegator fails. */
  locality?: "local" | "remote" | null;
  /** An agent on somebody else's platform. */
  remoteAgent?: RemoteAgent | null;
  /** Kept for other programs, never interpreted. */
  extensions?: Record<string, unknown> | null;
}

/** How a tool is started. A field that the tool's runner does not honour is refused, never ignored. */
export interface Launch {
  /** How the tool is driven: without a terminal (the default), in tmux, or over the Agent Client Protocol. */
  mode?: "headless" | "tmux" | "acp" | null;
  /** Let the tool do everything without asking. */
  yolo?: boolean | null;
  /** What the tool may do without asking, in its own words. */
  permissionMode?: string | null;
  /** Further arguments for the tool, as they are. */
  flags?: string[] | null;
  /** Let the tool make a worktree of its own inside the one that it gets. */
  useWorktree?: boolean | null;
  /** Let the tool make a branch of its own. */
  createBranch?: boolean | null;
  /** Run the tool in a container. */
  docker?: boolean | null;
  /** Whether the tool is kept to its tree: not at all, where that can be done, or else it does not run. */
  sandbox?: "off" | "prefer" | "require" | null;
  /** Text that every prompt begins with. */
  promptPrefix?: string | null;
  /** Text that every prompt ends with. */
  promptSuffix?: string | null;
  /** Pass the tool's questions on to a person. */
  relay?: boolean | null;
  /** Argument vector of a `generic` tool; slots: `{model} {prompt} {promptFile} {worktree} {sessionId}`. */
  command?: string[] | null;
  /** How a `generic` tool gets its prompt: as an argument, on standard input, or as the name of a file. */
  promptDelivery?: "argument" | "stdin" | "file" | null;
  /** What a `generic` tool prints: plain text (its end is its exit), or a JSON event a line, `result` last. */
  output?: "text" | "events" | null;
}

/** A value that is read from an environment variable when it is needed, and never stored. */
export interface EnvReference {
  /** Name of the environment variable. */
  fromEnv: string;
}

/** Bounds of one delegation; times in seconds, money in USD as a decimal string. */
export interface Limits {
  /** From `started` to the end of the last attempt. */
  totalSeconds?: number | null;
  /** Between two real events; keep-alives and output that is no event do not count. */
  idleSeconds?: number | null;
  /** From the start of an attempt to its first event. */
  firstEventSeconds?: number | null;
  /** From the terminal event to the exit of the process. */
  afterResultSeconds?: number | null;
  /** How long a question of the agent waits for a person; then it is rejected. */
  answerSeconds?: number | null;
  /** Turns of the agent. */
  maxTurns?: number | null;
  /** Tokens that the model writes, all turns together. */
  maxOutputTokens?: number | null;
  /** Tokens read and written, all turns together. */
  maxTokens?: number | null;
  /** What all turns together may cost, as far as the prices are known. */
  maxUsd?: string | null;
}

/** An agent that runs on somebody else's platform. */
export interface RemoteAgent {
  /** Whose platform it is. */
  platform: string;
  /** What the platform calls it. */
  id: string;
}

/** Whether a delegator can be used now. */
export interface EntryState {
  ready: boolean;
  problems: Problem[];
  circuit: "closed" | "open" | "half_open";
  openUntil?: string;
  running: number;
  queued: number;
}

/** One thing by its name. */
export interface NameParams {
  name: string;
  workspace?: string | null;
}

/** Make a delegator. */
export interface DelegatorCreateParams {
  delegator: Delegator;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Make a delegator for an agent CLI, with a generated name. */
export interface DelegatorFromToolParams {
  tool: string;
  model?: string | null;
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** Replace a delegator. */
export interface DelegatorUpdateParams {
  name: string;
  delegator: Delegator;
  revision?: string | null;
  workspace?: string | null;
}

/** Remove one thing; with `revision`, only if it is still that revision. */
export interface DeleteParams {
  name: string;
  revision?: string | null;
  workspace?: string | null;
}

/** An empty result. */
export interface Done {
}

/** Try a delegator: the saved one of this name, or one that is not saved. */
export interface DelegatorTestParams {
  name: string;
  /** Try exactly this one in its place; nothing is saved, and nothing need be saved under the name. */
  delegator?: Delegator | null;
  /** Where `delegator` would be saved: this decides which model servers it can use. */
  scope?: "user" | "workspace";
  workspace?: string | null;
}

/** What a probe found; `ok` when every step is. */
export interface ProbeResult {
  ok: boolean;
  steps: ProbeStep[];
}

/** One step of a probe: `binary`, `version`, `endpoint`, `key`, `model`, `round_trip`. */
export interface ProbeStep {
  name: string;
  ok: boolean;
  message: string;
  seconds: number;
}

/** Every model server, and what is wrong with the configuration. */
export interface ModelServersResult {
  modelServers: ModelServerEntry[];
  problems: Problem[];
}

/** A model server with where it comes from. */
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
  /** What delegators call it; also its file's name. */
  name: string;
  /** What people read in lists. */
  displayName?: string | null;
  /** `openai`, `ollama`, `lmstudio`, `llamacpp`, `vllm`, `openrouter`, `deepseek`, `custom`. */
  kind: string;
  /** Up to, not including, `/chat/completions` (`http://127.0.0.1:11434/v1`). */
  baseUrl: string;
  /** What it speaks; `openai` unless said. */
  protocol?: "openai" | "anthropic" | "auto" | null;
  /** Where its key is found; the key itself never stands in a file. */
  apiKey?: KeyReference | null;
  /** Sent with every request; no keys. */
  headers?: Record<string, string> | null;
  /** `local`: its address must be of this machine. */
  locality?: "local" | "remote" | null;
  /** Requests at once. */
  concurrency?: number | null;
  /** Variables for tools that are pointed at it. */
  extraEnv?: Record<string, string> | null;
}

/** Where an API key is found; exactly one field is set. */
export interface KeyReference {
  /** Name of an environment variable. */
  fromEnv?: string | null;
  /** Entry name in the operating system's keyring (service `understudy`). */
  keyring?: string | null;
  /** Absolute path of a file that only its owner can read (mode 0600). */
  file?: string | null;
}

/** What is known of a model server. */
export interface ServerState {
  reachable?: boolean;
  problems: Problem[];
}

/** Make a model server. */
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

/** What a model server offers. */
export interface ModelsResult {
  models: Model[];
}

/** A model as its server lists it. */
export interface Model {
  id: string;
  contextTokens?: number;
  price?: Record<string, string>;
}

/** Store an API key; it is never returned. */
export interface SetKeyParams {
  name: string;
  key: string;
  workspace?: string | null;
}

/** What to delegate. Only `recipe` is always needed. */
export interface StartParams {
  recipe: string;
  /** What the person adds in their own words. */
  task?: string | null;
  /** URIs of the files the work is about; for `tests`, the files under test. */
  files?: string[] | null;
  range?: Range | null;
  diagnostics?: unknown[] | null;
  /** URIs of files to read along. */
  context?: string[] | null;
  /** Text to work on, for recipes that return text. */
  input?: string | null;
  /** URI of the file to write, for recipes that return a file. */
  target?: string | null;
  delegator?: string | null;
  route?: string | null;
  agent?: string | null;
  /** URI of the workspace; absent: the git top level of the first file, else its folder. */
  workspace?: string | null;
  /** `seen` (what the person sees, the default), `head`, or a revision. */
  base?: string | null;
  /** Names of configured checks to run instead of the recipe's. */
  checks?: string[] | null;
  limits?: Limits | null;
  idempotencyKey?: string | null;
  workDoneToken?: string | number | null;
  buffers?: Buffer[] | null;
}

/** The text of an open document, which may differ from the file on disk. */
export interface Buffer {
  uri: string;
  text: string;
}

/** The delegation is under way. */
export interface StartResult {
  id: string;
  explain: Explanation;
}

/** Which delegator, and why. */
export interface Explanation {
  delegator: string;
  tried: Tried[];
  because: string;
}

/** A delegator that was considered. */
export interface Tried {
  name: string;
  skipped?: string;
}

/** Exactly what would be sent; tokens are estimates (bytes divided by four). */
export interface PreviewResult {
  prompt: string;
  files: PreviewFile[];
  tokens: number;
  estimatedUsd?: string;
  explain: Explanation;
}

/** A file that would be sent, or why it would not. */
export interface PreviewFile {
  path: string;
  bytes: number;
  tokens: number;
  withheld?: string;
}

/** One delegation; an unambiguous beginning of its id is enough. */
export interface IdParams {
  id: string;
}

/** One piece of delegated work as it stands now. */
export interface Delegation {
  id: string;
  title: string;
  recipe: string;
  state: State;
  verdict?: Verdict;
  reservations: Reservation[];
  workspace: string;
  delegator: string;
  attempts: Attempt[];
  base?: string;
  head?: string;
  worktree?: string;
  /** What `worktrees/restore` takes to bring its tree back; only while it is removed. */
  rescueRef?: string;
  result?: DelegationResult;
  checks: CheckResult[];
  review: Review;
  confined: boolean;
  usage: Usage;
  costUsd?: string;
  costKnown: boolean;
  activity?: string;
  startedAt: string;
  finishedAt?: string;
  error?: ErrorInfo;
  groupId?: string;
  parentId?: string;
  /** The follow-up that took over what was undecided here; None again when that came to nothing. */
  supersededBy?: string;
  waitingFor?: PermissionRequest;
  lastSeq: number;
}

/** One try on one delegator. */
export interface Attempt {
  n: number;
  delegator: string;
  tool?: string;
  model: string;
  startedAt: string;
  finishedAt?: string;
  sessionId?: string;
  from: string;
  to?: string;
  usage: Usage;
  costUsd?: string;
  /** The amount was computed from counted text, not reported. */
  costEstimated?: boolean;
  failure?: ErrorInfo;
  handover?: string;
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

/** An error as it travels: what happened, to what, and what to do next. */
export interface ErrorInfo {
  kind: ErrorKind;
  message: string;
  hint?: string;
  location?: Location;
  names?: string[];
}

/** What came back. */
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

/** What one check came to on one tree. */
export interface CheckResult {
  name: string;
  argv: string[];
  exitCode?: number;
  seconds: number;
  /** Object id of the tree that was judged. */
  tree: string;
  passed?: number;
  failed?: number;
  skipped?: number;
  outputTail: string;
  control?: Control;
  flaky: boolean;
  failsOnBase: boolean;
  wrongTree?: string[];
  /** Green on this tree (also when flaky). */
  ok: boolean;
  required: boolean;
}

/** The control run: the code under test broken on purpose. */
export interface Control {
  /** Tests that fail when the code under test raises. */
  bitten: number;
  /** Tests that pass all the same, by their id. */
  survived: string[];
}

/** How many hunks are undecided, accepted, rejected. */
export interface Review {
  pending: number;
  accepted: number;
  rejected: number;
}

/** What an agent asks a person. */
export interface PermissionRequest {
  requestId: string;
  attempt: number;
  title: string;
  detail: string;
  options: PermissionOption[];
  deadline?: string;
  onDeadline: string;
}

/** One possible answer; choose by `kind`, never by `id`. */
export interface PermissionOption {
  id: string;
  title: string;
  kind: "allow_once" | "allow_always" | "reject_once" | "reject_always";
}

/** Delegations, newest first; `limit` at most 1000, default 100. */
export interface ListParams {
  states?: State[] | null;
  workspace?: string | null;
  delegator?: string | null;
  text?: string | null;
  limit?: number | null;
  cursor?: string | null;
}

/** A page; `cursor` is there when more follow. */
export interface ListResult {
  delegations: Delegation[];
  cursor?: string;
}

/** Wait for the end, at most `timeoutSeconds` (default 3600, at most 86400). */
export interface WaitParams {
  id: string;
  timeoutSeconds?: number | null;
}

/** Events after `after`; with `waitSeconds` (at most 60), wait for the next when there is none. */
export interface EventsParams {
  id: string;
  after?: number;
  limit?: number | null;
  waitSeconds?: number | null;
}

/** Events in order, and the last `seq` among them (`after` where there is none). */
export interface EventsResult {
  events: Event[];
  last: number;
}

/** Follow one delegation, or all; `after` says per delegation what the client has already. */
export interface SubscribeParams {
  id?: string | null;
  after?: Record<string, number>;
}

/** Stop following one delegation, or all. */
export interface UnsubscribeParams {
  id?: string | null;
}

/** What changed between base and result. */
export interface DiffResult {
  base: string;
  head: string;
  files: FileDiff[];
}

/** One changed file. Paths that are not UTF-8 or begin with `"` are C-quoted as git does. */
export interface FileDiff {
  path: string;
  from?: string;
  status: "added" | "deleted" | "modified" | "renamed" | "mode" | "type";
  binary: boolean;
  /** Why an accept of it wants the person's word (`flagged`): what executes or obeys such a file. */
  flagged?: string;
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
}

/** One file on one side of the review; paths as `delegations/diff` spells them. */
export interface FileParams {
  id: string;
  path: string;
  side: "base" | "result";
}

/** Its content, as text where it is UTF-8; `mode` as git writes it (`100644`). */
export interface FileResult {
  text?: string;
  base64?: string;
  mode: string;
}

/** Decide on hunks; accepting merges them into what the person sees now, in the same call. */
export interface DecideParams {
  id: string;
  decisions: Decision[];
  /** The person has seen that hooks, CI, editor or agent configuration or package scripts change, and means it. */
  flagged?: boolean;
}

/** One decision: without `path` on everything pending, without `hunk` on the whole file. */
export interface Decision {
  path?: string | null;
  hunk?: string | null;
  decision: "accept" | "reject";
  /** Why it is turned down; a follow-up tells the agent. */
  reason?: string | null;
  /** The person has merged it into their files already: an accept that changes none of them. */
  byHand?: boolean;
}

/** Every hunk as it stands now, what did not merge, and how to take the accept back. */
export interface DecideResult {
  hunks: Hunk[];
  /** Ids of the hunks that this call accepted or rejected; another one's decisions of the same moment are not here. */
  moved: string[];
  conflicts: Conflict[];
  undoToken?: string;
}

/** A hunk that does not merge; it stays pending. The three sides are texts (what is not UTF-8 in them is replaced), each absent where that side has no file. */
export interface Conflict {
  path: string;
  hunk: string;
  base?: string;
  result?: string;
  yours?: string;
  /** At `yours` is a folder, or something else that is neither file nor link. */
  inTheWay?: boolean;
}

/** Take an accept back. */
export interface UndoParams {
  undoToken: string;
}

/** Change a file on the result side by hand; `head` is the result it was read from. */
export interface AmendParams {
  id: string;
  path: string;
  text: string;
  head: string;
}

/** The new result, split into hunks anew; the verdict is `unverified` until the checks ran again. */
export interface AmendResult {
  head: string;
  hunks: Hunk[];
}

/** Send a result back with words. */
export interface ReplyParams {
  id: string;
  text: string;
}

/** The new delegation. */
export interface StartedResult {
  id: string;
}

/** Try again from the original base. */
export interface RetryParams {
  id: string;
  delegator?: string | null;
}

/** Answer a question of an agent by the id of an option. */
export interface AnswerParams {
  id: string;
  requestId: string;
  option: string;
  note?: string | null;
}

/** Take a result out as a branch, a commit or a patch; the person's branch and files stay as they are. */
export interface ExportParams {
  id: string;
  to: "branch" | "commit" | "patch";
  branch?: string | null;
  message?: string | null;
}

/** Where it is now. */
export interface ExportResult {
  branch?: string;
  commit?: string;
  patch?: string;
}

/** What brings it back. */
export interface RescueResult {
  rescueRef: string;
}

/** Every tree that Understudy made, and those it removed that can be brought back, the newest first. */
export interface WorktreesResult {
  worktrees: WorktreeEntry[];
  rescues: RescueEntry[];
}

/** A tree on disk. */
export interface WorktreeEntry {
  id: string;
  path: string;
  repo: string;
  bytes: number;
  state: "working" | "undecided" | "decided" | "expired" | "orphaned";
  leasedBy?: string;
}

/** A tree that was removed and can be brought back. */
export interface RescueEntry {
  rescueRef: string;
  /** Where it was, and would be again. */
  path: string;
  repo: string;
  /** When it was removed. */
  at: string;
  /** What could not be kept. */
  notes: string[];
}

/** Bring back a tree that was removed. */
export interface RestoreParams {
  rescueRef: string;
}

/** Where it is again. */
export interface RestoreResult {
  path: string;
}

/** `understudy/event`: new events of one delegation, in `seq` order. */
export interface EventNotification {
  id: string;
  events: Event[];
}

/** `understudy/changed`: read these collections again. */
export interface ChangedNotification {
  collections: ("delegations" | "delegators" | "modelServers" | "recipes" | "trust")[];
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

/** The isolated tree is there. */
export interface WorktreeEvent {
  type: "worktree";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  seconds: number;
}

/** No slot was free. */
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
  why: string;
  /** Whether this attempt's processes run in a sandbox. */
  confined?: boolean;
}

/** What is going on, in a few words for people. */
export interface PhaseEvent {
  type: "phase";
  seq: number;
  at: string;
  attempt: number;
  text: string;
}

/** The prompt was handed over; its text is in `prompt.md`. */
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

/** What the tool said. */
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

/** The agent says that it changed a file. */
export interface FileEvent {
  type: "file";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  change: "added" | "modified" | "deleted" | "renamed";
}

/** The agent's plan as it is now. */
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

/** The agent asks a person; the fields are those of `PermissionRequest`. */
export interface PermissionEvent {
  type: "permission";
  seq: number;
  at: string;
  attempt: number;
  requestId: string;
  title: string;
  detail: string;
  options: PermissionOption[];
  deadline?: string;
  onDeadline: string;
}

/** Somebody, or the deadline, answered. */
export interface PermissionAnsweredEvent {
  type: "permission_answered";
  seq: number;
  at: string;
  attempt: number;
  requestId: string;
  option: string;
  by: string;
}

/** The attempt is over and came to nothing. */
export interface AttemptFailedEvent {
  type: "attempt_failed";
  seq: number;
  at: string;
  attempt: number;
  kind: string;
  message: string;
  hint?: string;
  willRetry: boolean;
  nextDelegator?: string;
  waitSeconds?: number;
}

/** What the attempt left in the tree, as a commit. */
export interface CheckpointEvent {
  type: "checkpoint";
  seq: number;
  at: string;
  attempt: number;
  commit: string;
}

/** What came back: a commit and its files, or a text. */
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
  tree: string;
  passed?: number;
  failed?: number;
  skipped?: number;
  outputTail: string;
  control?: Control;
  flaky: boolean;
  failsOnBase: boolean;
  wrongTree?: string[];
  ok: boolean;
  required: boolean;
}

/** Something a person should know. */
export interface NoteEvent {
  type: "note";
  seq: number;
  at: string;
  attempt: number;
  level: "info" | "warning" | "error";
  text: string;
}

/** The end. Exactly one of a run; `delegations/check` adds another after the checks ran again. */
export interface FinishedEvent {
  type: "finished";
  seq: number;
  at: string;
  attempt: number;
  verdict: Verdict;
  reservations: Reservation[];
  error?: ErrorInfo;
}

/** A person decided on a hunk. */
export interface DecidedEvent {
  type: "decided";
  seq: number;
  at: string;
  attempt: number;
  path: string;
  hunk: string;
  decision: "accept" | "reject" | "pending";
  /** What the hunk's decision was before, so that counts follow from the events alone. `superseded`: the follow-up that was to take it over ended before it did; it is undecided again. */
  was?: "accept" | "reject" | "pending" | "superseded";
  /** An accept was tried and does not merge into what the person sees; the hunk stays pending. */
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

/** An accept was taken back. */
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
  /** Hunk of the new result → the same hunk before: its decision holds. Every other hunk is pending. */
  carried?: Record<string, string>;
  /** Hunks of the new result that hold what was edited by hand. */
  edited?: string[];
  /** The counts after the edit. */
  review?: Review;
}

/** The tree is gone; the rescue ref brings it back. */
export interface DiscardedEvent {
  type: "discarded";
  seq: number;
  at: string;
  attempt: number;
  rescueRef: string;
}

/** A follow-up took over what was undecided. */
export interface SupersededEvent {
  type: "superseded";
  seq: number;
  at: string;
  attempt: number;
  by: string;
}

/** An event of a newer version: kept in its place, its content not understood. */
export interface UnknownEvent {
  type: "unknown";
  seq: number;
  at: string;
  attempt: number;
  original: string;
}

/** Something that happened to a delegation; `type` says what. */
export type Event =
  | BaseEvent
  | WorktreeEvent
  | QueuedEvent
  | StartedEvent
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
  | AttemptFailedEvent
  | CheckpointEvent
  | ResultEvent
  | CheckStartedEvent
  | CheckFinishedEvent
  | NoteEvent
  | FinishedEvent
  | DecidedEvent
  | AppliedEvent
  | UndoneEvent
  | AmendedEvent
  | DiscardedEvent
  | SupersededEvent
  | UnknownEvent;

/** Every request, with what it takes and what it answers. */
export interface Requests {
  /** Which version this is, and which contract it speaks. */
  "understudy/version": { params: Nothing; result: VersionResult };
  /** Look at everything that a run needs, and say what to do about what is missing. */
  "understudy/doctor": { params: Nothing; result: DoctorResult };
  /** Every agent CLI that Understudy knows, found or not, with its version. */
  "understudy/tools/list": { params: ToolsParams; result: ToolsResult };
  /** Trust a workspace, withdraw it, or ask how it stands. */
  "understudy/workspace/trust": { params: TrustParams; result: TrustResult };
  /** The recipes that apply to a file. */
  "understudy/recipes/list": { params: RecipesParams; result: RecipesResult };
  /** Every delegator with where it comes from, and every problem of the configuration. */
  "understudy/delegators/list": { params: WorkspaceParams; result: DelegatorsResult };
  /** One delegator. */
  "understudy/delegators/get": { params: NameParams; result: DelegatorEntry };
  /** Make a delegator: one file in the folder of its scope. */
  "understudy/delegators/create": { params: DelegatorCreateParams; result: DelegatorEntry };
  /** Make a delegator for an agent CLI, with a generated unique name. */
  "understudy/delegators/createFromTool": { params: DelegatorFromToolParams; result: DelegatorEntry };
  /** Replace a delegator; a stale revision is a conflict. */
  "understudy/delegators/update": { params: DelegatorUpdateParams; result: DelegatorEntry };
  /** Remove a delegator. */
  "understudy/delegators/delete": { params: DeleteParams; result: Done };
  /** Try a delegator, saved or not: its tool, its server, key and model, and a real round trip of a few words. */
  "understudy/delegators/test": { params: DelegatorTestParams; result: ProbeResult };
  /** Every model server with where it comes from. */
  "understudy/modelServers/list": { params: WorkspaceParams; result: ModelServersResult };
  /** One model server. */
  "understudy/modelServers/get": { params: NameParams; result: ModelServerEntry };
  /** Make a model server. */
  "understudy/modelServers/create": { params: ModelServerCreateParams; result: ModelServerEntry };
  /** Replace a model server; a stale revision is a conflict. */
  "understudy/modelServers/update": { params: ModelServerUpdateParams; result: ModelServerEntry };
  /** Remove a model server. */
  "understudy/modelServers/delete": { params: DeleteParams; result: Done };
  /** Reach a model server and try its key. */
  "understudy/modelServers/probe": { params: NameParams; result: ProbeResult };
  /** The models that a server offers. */
  "understudy/modelServers/models": { params: NameParams; result: ModelsResult };
  /** Store a server's API key in the OS keyring or a 0600 file, and refer to it. */
  "understudy/modelServers/setKey": { params: SetKeyParams; result: Done };
  /** Start a delegation; answered at once, with which delegator and why. */
  "understudy/delegations/start": { params: StartParams; result: StartResult };
  /** Show exactly what a start would send; nothing is sent. */
  "understudy/delegations/preview": { params: StartParams; result: PreviewResult };
  /** One delegation as it stands now. */
  "understudy/delegations/get": { params: IdParams; result: Delegation };
  /** Delegations, newest first, a page at a time. */
  "understudy/delegations/list": { params: ListParams; result: ListResult };
  /** Wait for the end; the limit passed is not an error: look at `state`. */
  "understudy/delegations/wait": { params: WaitParams; result: Delegation };
  /** Events after a sequence number; may wait for the next one. */
  "understudy/delegations/events": { params: EventsParams; result: EventsResult };
  /** Be sent events: missed ones first, then live ones, none twice, none lost. */
  "understudy/delegations/subscribe": { params: SubscribeParams; result: Done };
  /** Stop being sent events. */
  "understudy/delegations/unsubscribe": { params: UnsubscribeParams; result: Done };
  /** Stop a delegation within five seconds; its work is kept. Idempotent. */
  "understudy/delegations/cancel": { params: IdParams; result: Delegation };
  /** The result as files and hunks. */
  "understudy/delegations/diff": { params: IdParams; result: DiffResult };
  /** One file of the base or of the result. */
  "understudy/delegations/file": { params: FileParams; result: FileResult };
  /** Run the checks again on the result, and say the verdict anew. */
  "understudy/delegations/check": { params: IdParams; result: Delegation };
  /** Accept hunks, which merges them into what the person sees now, or reject them with a reason. */
  "understudy/delegations/decide": { params: DecideParams; result: DecideResult };
  /** Take an accept back; later edits stay. */
  "understudy/delegations/undo": { params: UndoParams; result: Done };
  /** Edit a file of the result by hand; its hunks are split anew. */
  "understudy/delegations/amend": { params: AmendParams; result: AmendResult };
  /** Send a result back with words: a new delegation in the same tree and tool session. */
  "understudy/delegations/reply": { params: ReplyParams; result: StartedResult };
  /** Try again from the original base, perhaps with another delegator. */
  "understudy/delegations/retry": { params: RetryParams; result: StartedResult };
  /** Answer an agent's question; the first valid answer counts, a second one is a conflict. */
  "understudy/delegations/answer": { params: AnswerParams; result: Done };
  /** Take a result, without what was rejected, out as a branch, a commit or a patch. */
  "understudy/delegations/export": { params: ExportParams; result: ExportResult };
  /** Take the tree of a result away; the rescue ref brings it back byte for byte. */
  "understudy/delegations/discard": { params: IdParams; result: RescueResult };
  /** Every tree on disk, and who has it. */
  "understudy/worktrees/list": { params: Nothing; result: WorktreesResult };
  /** Take a tree away by its id in the list; the rescue ref brings it back. */
  "understudy/worktrees/remove": { params: IdParams; result: RescueResult };
  /** Bring a tree back to where it was. */
  "understudy/worktrees/restore": { params: RestoreParams; result: RestoreResult };
}

/** What the server sends unasked. */
export interface Notifications {
  /** `understudy/event`: new events of one delegation, in `seq` order. */
  "understudy/event": EventNotification;
  /** `understudy/changed`: read these collections again. */
  "understudy/changed": ChangedNotification;
}
