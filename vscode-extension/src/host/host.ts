/**
 * The editor as an interface: plain data and small functions, without `vscode` types. `host/vscode/` implements it
 * for VS Code, `tests/support/fakeHost.ts` for tests.
 *
 * Conventions: a URI is the string that `vscode.Uri.toString()` returns. Lines and characters are zero-based. Texts
 * of the UI have been translated with `t()`. Command links in Markdown work only if listed in `trustedCommands`.
 */

import type { Disposable, Subscribe } from "../base/events.ts";
import type { Range } from "../protocol.ts";

/** The whole interface. Modules take only the members they need (`Pick<Host, "windows">`). */
export interface Host {
  readonly environment: Environment;
  readonly workspace: Workspace;
  readonly windows: Windows;
  readonly documents: Documents;
  readonly review: ReviewEditors;
  readonly assistants: Assistants;
  readonly commands: Commands;
  readonly output: Output;
  readonly secrets: Secrets;
  /** Small values, stored per workspace or per user (`global`). */
  readonly memory: Memory;
}

export interface Environment {
  /** Folder of the installed extension: `wheels/`, `media/`. */
  readonly extensionPath: string;
  readonly extensionVersion: string;
  /** Storage of the extension for this user, outside all workspaces. */
  readonly storagePath: string;
  readonly editorName: string;
  readonly editorVersion: string;
  readonly platform: NodeJS.Platform;
  /** `ssh-remote`, `dev-container` …; absent if the extension runs on the same machine as the window. */
  readonly remoteName?: string;
  /** BCP 47. */
  readonly language: string;
  /** Texts of the UI in this language, by their English text; empty if it is English. */
  readonly translations: Readonly<Record<string, string>>;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly homePath: string;
  /** The text of a file that the build makes for a page (`transcriptPage.js`). */
  pageAsset(name: string): string;
  copyToClipboard(text: string): Promise<void>;
  openExternal(uri: string): Promise<void>;
}

export interface Folder {
  readonly uri: string;
  /** Path on disk. Virtual folders are left out. */
  readonly path: string;
  readonly name: string;
}

export interface Workspace {
  readonly trusted: boolean;
  readonly onDidGrantTrust: Subscribe<void>;
  readonly folders: readonly Folder[];
  readonly onDidChangeFolders: Subscribe<void>;
  /** URIs of at most `most` files whose path matches a glob pattern, without those that the editor hides or that tools install. */
  findFiles(glob: string, most: number): Promise<readonly string[]>;
  /** Current value of a setting below `understudy.`. */
  setting<T>(name: string, fallback: T): T;
  /** Current value of a setting of the editor, by its full name. */
  editorSetting<T>(name: string, fallback: T): T;
  /** Change a setting of the editor for this user. Ask first: it has effects outside our views. */
  setEditorSetting(name: string, value: boolean): Promise<void>;
  /** Fires when a setting below `understudy.`, or an editor setting that we use, changes. */
  readonly onDidChangeSettings: Subscribe<void>;
}

/** A row of a tree. `id` never changes; menu commands receive it as their first argument. */
export interface TreeRow {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  /** Markdown. */
  readonly tooltip?: string;
  /** A codicon, and the ID of a theme color. */
  readonly icon?: { readonly id: string; readonly color?: string };
  readonly children: "none" | "collapsed" | "expanded";
  /** Space-separated words that `when` clauses match as `viewItem`. */
  readonly context: string;
  readonly command?: CommandLink;
  /** What a screen reader reads instead of label and description. */
  readonly spoken: string;
  /** The icon is the editor's for this resource. */
  readonly resource?: string;
}

export interface CommandLink {
  readonly id: string;
  readonly title: string;
  readonly arguments?: readonly unknown[];
}

/** Data of a tree. All methods are synchronous: the store holds everything in memory. */
export interface TreeDataProvider {
  /** IDs of the children in order; of the roots without an ID. */
  children(id?: string): readonly string[];
  /** The current row; undefined if it no longer exists. */
  row(id: string): TreeRow | undefined;
  parent(id: string): string | undefined;
  /** IDs whose row or children changed; undefined: everything. */
  readonly onDidChange: Subscribe<readonly string[] | undefined>;
}

export interface Tree extends Disposable {
  readonly visible: boolean;
  readonly onDidChangeVisibility: Subscribe<boolean>;
  readonly selection: readonly string[];
  reveal(id: string, options?: { focus?: boolean; expand?: boolean }): Promise<void>;
  /** A line above the rows; undefined removes it. */
  setMessage(message: string | undefined): void;
  setDescription(description: string | undefined): void;
  setBadge(count: number, tooltip: string): void;
}

export interface PickItem {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  readonly detail?: string;
  readonly icon?: string;
  /** A heading that cannot be picked. */
  readonly separator?: boolean;
  readonly picked?: boolean;
  readonly buttons?: readonly PickButton[];
}

export interface PickButton {
  readonly id: string;
  readonly icon: string;
  readonly tooltip: string;
}

export interface StepHeader {
  readonly title: string;
  readonly step?: number;
  readonly totalSteps?: number;
  /** Whether to show the Back button. */
  readonly back?: boolean;
}

export interface PickContent {
  readonly items: readonly PickItem[];
  readonly busy?: boolean;
  readonly placeholder?: string;
}

export interface PickRequest extends StepHeader, PickContent {
  readonly many?: boolean;
  /** The item that has the focus until the user moves it. New content never moves the focus. */
  readonly active?: string;
  readonly buttons?: readonly PickButton[];
  /** An additional item for the text that was typed; picking it returns the text in `PickOutcome.typed`. */
  readonly typedItem?: (typed: string) => PickItem | undefined;
  /** Load content after the pick is shown. `signal` is aborted when the pick closes. */
  readonly live?: (show: (content: Partial<PickContent>) => void, signal: AbortSignal) => void;
}

export type PickOutcome =
  | { readonly kind: "picked"; readonly ids: readonly string[]; readonly typed: string }
  | { readonly kind: "button"; readonly button: string; readonly item?: string }
  | { readonly kind: "back" }
  | { readonly kind: "cancelled" };

export interface InputRequest extends StepHeader {
  readonly prompt: string;
  readonly value?: string;
  readonly placeholder?: string;
  readonly password?: boolean;
  /** A button that leaves the box; `press` gets what was entered so far. */
  readonly button?: { readonly icon: string; readonly tooltip: string; readonly press: (value: string) => void };
  /** Returns an error message, or undefined if the value is valid. */
  readonly validate?: (value: string) => string | undefined | Promise<string | undefined>;
}

export type InputOutcome =
  { readonly kind: "accepted"; readonly value: string } | { readonly kind: "back" } | { readonly kind: "cancelled" };

export interface Progress {
  report(message: string, percent?: number): void;
  readonly signal: AbortSignal;
}

export interface StatusItem extends Disposable {
  set(content: {
    readonly text: string;
    readonly tooltip: string;
    readonly spoken: string;
    readonly command: string;
    readonly severity?: "warning" | "error";
    /** Commands that links in the tooltip may run. */
    readonly trustedCommands?: readonly string[];
  }): void;
  hide(): void;
}

export interface Windows {
  tree(viewId: string, rows: TreeDataProvider, options?: { many?: boolean }): Tree;
  pick(request: PickRequest): Promise<PickOutcome>;
  input(request: InputRequest): Promise<InputOutcome>;
  /** Show a message; returns the text of the pressed button. Use `modal` before data is lost. */
  message(
    level: "info" | "warning" | "error",
    text: string,
    options?: { readonly buttons?: readonly string[]; readonly modal?: boolean; readonly detail?: string },
  ): Promise<string | undefined>;
  /** Show a text in the status bar for a few seconds. */
  flash(text: string): void;
  /** Show progress with a title. `cancellable` adds a button that aborts `signal`. */
  progress<T>(
    options: { readonly title: string; readonly where: "notification" | "status"; readonly cancellable?: boolean },
    task: (progress: Progress) => Promise<T>,
  ): Promise<T>;
  /** A status bar item. A higher `priority` is further to the left. */
  statusItem(id: string, name: string, priority: number): StatusItem;
  /** Open a page in a tab. `html` must forbid every source that it does not contain (Content-Security-Policy). */
  panel(type: string, title: string, html: string): Panel;
  /** Called with each panel of an earlier window, and what its page had stored; `start` shows the page again. */
  restorePanels(type: string, restore: (state: unknown, start: (html: string) => Panel) => void): Disposable;
  /** Resolves when the active tab is not a panel of this type: at once if there is no such panel. */
  leftPanel(type: string): Promise<void>;
  /** Called with the page of a view, each time that the editor creates it. */
  pageView(viewId: string, open: (start: (html: string) => Panel) => void): Disposable;
  /** Let the user choose files on disk; none if they cancel. `folder` is shown first. */
  pickFiles(title: string, folder?: string): Promise<readonly string[]>;
  focusView(viewId: string): Promise<void>;
  /** Run a line in a new terminal, in the home folder: files of a workspace must not configure what it starts. */
  runInTerminal(title: string, line: string): void;
  /** Run a program, with its arguments, in a new terminal; no shell is involved, and it is not inside another tmux. */
  runProgram(title: string, argv: readonly string[]): void;
  /**
   * Run programs, each with its arguments, one after the other in a new terminal, in a folder on disk. Returns whether
   * all succeeded; otherwise, the terminal stays open until the user has read it.
   */
  runToEnd(title: string, commands: readonly (readonly string[])[], folder: string): Promise<boolean>;
  /** Open a folder on disk in a new window. */
  openFolder(path: string): Promise<void>;
}

/** A page of our own in an editor tab or a view. A hidden page ends; shown again, it starts from its HTML. */
export interface Panel {
  post(message: unknown): void;
  /** What the page posts. Untrusted, like everything that shows text of agents. */
  readonly onMessage: Subscribe<unknown>;
  readonly onDidClose: Subscribe<void>;
  reveal(): void;
  setTitle(title: string): void;
}

/** The text of an open document. */
export interface OpenText {
  readonly uri: string;
  readonly language: string;
  readonly text: string;
  readonly dirty: boolean;
}

export interface ActiveEditor {
  readonly uri: string;
  readonly selection: Range;
  readonly selectionEmpty: boolean;
}

export interface DiagnosticText {
  readonly range: Range;
  readonly severity: "error" | "warning" | "information" | "hint";
  readonly message: string;
  readonly source?: string;
  readonly code?: string;
}

export interface ShowOptions {
  readonly range?: Range;
  readonly preview?: boolean;
}

export interface Documents {
  /** The file of the active editor; in a tab that shows no text, such as that of a binary file, the file of the tab. */
  readonly active: ActiveEditor | undefined;
  readonly onDidChangeActive: Subscribe<ActiveEditor | undefined>;
  /** Fires when the selection of the active editor changes. */
  readonly onDidSelect: Subscribe<ActiveEditor>;
  /** The files on disk that are open in tabs, the tabs beside the active one first. */
  readonly tabs: readonly string[];
  /** The open documents with these URIs, or all with unsaved changes. */
  open(uris?: readonly string[]): readonly OpenText[];
  diagnostics(uri: string): readonly DiagnosticText[];
  /** Replace our own hints in a document. */
  setHints(uri: string, hints: readonly DiagnosticText[]): void;
  show(uri: string, options?: ShowOptions): Promise<void>;
  /** Save an open document. Returns false if it is not open or could not be saved. */
  save(uri: string): Promise<boolean>;
  /** Show a rendered Markdown document. */
  preview(uri: string): Promise<void>;
  /** Open a new untitled document with this text. */
  showText(text: string, language: string): Promise<void>;
  /** Read-only documents of a scheme. */
  provide(scheme: string, source: VirtualText): Disposable;
  /** Files of a scheme, such as both sides of a review. Without `write`, the editor does not let the user change them. */
  provideFiles(scheme: string, source: VirtualFiles): Disposable;
  /** Scroll the editors of a document to its end, unless the user has scrolled up. */
  follow(uri: string): void;
  /** Fires with the URI when a document is closed. */
  readonly onDidClose: Subscribe<string>;
  /** Fires with the URI when a document is saved. */
  readonly onDidSave: Subscribe<string>;
  /** Fires with the URI when the text of a document of our own schemes (`understudy-…`) changes in the editor. */
  readonly onDidChangeOwn: Subscribe<string>;
  links(scheme: string, source: (uri: string, text: string) => readonly TextLink[]): Disposable;
  folds(scheme: string, source: (uri: string, text: string) => readonly Fold[]): Disposable;
  /** Edit open documents as a single undo step. Returns false if the editor refused. */
  edit(changes: readonly { uri: string; range: Range; text: string }[], label: string): Promise<boolean>;
}

export interface VirtualText {
  text(uri: string): string | Promise<string>;
  readonly onDidChange: Subscribe<string>;
}

export interface FileStat {
  readonly size: number;
  /** When the content changed, in milliseconds since 1970. It grows with each change, also across windows. */
  readonly changed: number;
  readonly readonly?: boolean;
}

export interface FileChange {
  readonly uri: string;
  readonly kind: "changed" | "deleted";
}

/** Thrown by `VirtualFiles`: the file does not exist. After other errors, it may exist. */
export class FileMissing extends Error {}

export interface VirtualFiles {
  /** Called when the file is about to be shown or overwritten. */
  read(uri: string): Promise<Uint8Array>;
  /** Without showing the file. If absent, `read` is called instead. */
  stat?(uri: string): Promise<FileStat>;
  /** Called when the user saves. Throws an error with a message for the user. If absent, the files are read-only. */
  write?(uri: string, content: Uint8Array): Promise<void>;
  readonly onDidChange: Subscribe<readonly FileChange[]>;
}

export interface TextLink {
  readonly range: Range;
  readonly target: string;
  readonly tooltip?: string;
}

export interface Fold {
  readonly start: number;
  readonly end: number;
}

/** Base and result of one file. A side that does not exist is absent. */
export interface DiffPair {
  readonly label: string;
  readonly base?: string;
  readonly result?: string;
}

export interface Lens {
  readonly range: Range;
  readonly command: CommandLink;
}

export interface Thread extends Disposable {
  /** `note` is shown below the label and its buttons. Without a range, as when it was made, the bar is above the first line. */
  set(content: {
    readonly label: string;
    readonly note: string;
    readonly context: string;
    readonly range: Range | undefined;
    /** Whether the bar is collapsed; the user can expand it. */
    readonly collapsed?: boolean;
  }): void;
}

/** Lines without interest: greyed, and struck through if they are not wanted. */
export interface GreyedLines {
  readonly line: number;
  /** Zero: only the note is shown. */
  readonly count: number;
  readonly struck: boolean;
  /** Shown after the first line. */
  readonly note: string;
}

/** What the user says about a line of a document. */
export interface LineComment {
  readonly uri: string;
  readonly line: number;
  readonly text: string;
}

/** The tab of a multi-file diff. */
export interface DiffsTab {
  /** The tab with this ID is shown again instead of opening another one. */
  readonly id: string;
  /** Whether it may be open, possibly since an earlier window. If not, other tabs with the same title are closed. */
  readonly opened: boolean;
  /** A change to go to; without a range if its file has no text to show. */
  readonly at?: { readonly pair: DiffPair; readonly range?: Range };
}

export interface ReviewEditors {
  diff(pair: DiffPair, options?: ShowOptions): Promise<void>;
  /** Open the native multi-file diff in a permanent tab; without `tab`, in a new one that replaces others. */
  diffs(title: string, pairs: readonly DiffPair[], tab?: DiffsTab): Promise<void>;
  /** Whether the active tab is a multi-file diff with this title. */
  isActive(title: string): boolean;
  /** Open the native merge editor; saving it writes `output`. Returns false if the editor has none. */
  merge(sides: { base: string; yours: string; theirs: string; output: string }): Promise<boolean>;
  /** Save the merge editor of `output`, if there is one. Returns false if it still has unsaved changes. */
  saveMerge(output: string): Promise<boolean>;
  /** Close the merge editor of `output`, unless it has unsaved changes. */
  closeMerge(output: string): Promise<void>;
  /**
   * Close the diffs of documents with these schemes, and other tabs with these titles, unless they have unsaved
   * changes.
   */
  close(schemes: readonly string[], titles: readonly string[]): Promise<void>;
  lenses(
    scheme: string,
    source: { lenses(uri: string): readonly Lens[]; readonly onDidChange: Subscribe<void> },
  ): Disposable;
  /**
   * An action bar below a range of a document, which the user can collapse. It is a comment thread that does not open
   * the Comments view. Menus match `commentThread == <context>`; their commands receive `id` as their first argument.
   */
  thread(id: string, uri: string, range: Range | undefined): Thread;
  /** Grey lines of the visible documents of a scheme. */
  grey(
    scheme: string,
    source: { lines(uri: string): readonly GreyedLines[]; readonly onDidChange: Subscribe<void> },
  ): Disposable;
  /**
   * Let the user comment on lines of the documents of a scheme, for which `open` holds. A new comment is passed to
   * `understudy.review.addComment`, one to remove to `understudy.review.removeComment`; `set` replaces what is shown.
   */
  comments(scheme: string, open: (uri: string) => boolean): { set(comments: readonly LineComment[]): void };
}

/**
 * The agents and the chat of the editor. In an editor that has not the part of the API, or in which it is turned off,
 * each function registers nothing and returns undefined.
 */
export interface Assistants {
  /** Offer a tool, which `package.json` declares, to language models. */
  tool(name: string, tool: LanguageTool): Disposable | undefined;
  /** Offer MCP servers, which the user starts. */
  mcpServers(
    id: string,
    source: { servers(): Promise<readonly McpServer[]>; readonly onDidChange: Subscribe<void> },
  ): Disposable | undefined;
  /** Answer chat messages that address the participant, which `package.json` declares. */
  participant(id: string, answer: ChatHandler): Disposable | undefined;
  /** Offer language models to the chat, under a vendor that `package.json` declares. */
  models(vendor: string, source: ChatModels): Disposable | undefined;
  /** The vendors of the language models that the chat has. */
  modelVendors(): Promise<readonly string[]>;
}

export interface ChatModel {
  readonly id: string;
  readonly name: string;
  readonly detail: string;
  readonly family: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface ChatMessage {
  readonly role: "user" | "assistant";
  readonly text: string;
}

export interface ChatModels {
  /** Those that are known: listing them must not take long. */
  models(): readonly ChatModel[];
  readonly onDidChange: Subscribe<void>;
  /** About how many tokens a text has. */
  tokens(text: string): number;
  /** Answer a conversation; `add` appends to the answer. */
  answer(
    model: string,
    messages: readonly ChatMessage[],
    add: (text: string) => void,
    signal: AbortSignal,
  ): Promise<void>;
}

export interface LanguageTool {
  /** What the user sees before the call; with `question`, they must confirm it. Markdown. */
  describe(input: unknown): {
    readonly title: string;
    readonly question?: { readonly title: string; readonly text: string };
  };
  /** Return what the model reads. Errors are shown to the model. */
  run(input: unknown, signal: AbortSignal): Promise<string>;
}

/** A program that serves MCP on its standard input and output. */
export interface McpServer {
  readonly label: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string | undefined;
  readonly version: string;
}

export interface ChatRequest {
  readonly prompt: string;
  /** The slash command, without slash. */
  readonly command?: string;
  /** The files that the message refers to; `range`: lines of them. */
  readonly files: readonly { readonly uri: string; readonly range?: Range }[];
  /** What the participant returned for its last message of this conversation. */
  readonly previous?: string;
}

export interface ChatReply {
  /** Add to the answer. Commands of links do not run. */
  markdown(text: string): void;
  /** Replace the line that shows what happens. Plain text. */
  progress(text: string): void;
  button(command: CommandLink): void;
}

/** Answers a message; returns what the next one of the conversation gets as `previous`. */
export type ChatHandler = (
  request: ChatRequest,
  reply: ChatReply,
  signal: AbortSignal,
) => Promise<{ readonly remember?: string; readonly error?: string }>;

export interface Commands extends Disposable {
  /** Errors of the handler are shown to the user. URIs of menus are passed as strings, bars as their IDs. */
  register(id: string, handler: (...values: unknown[]) => unknown): Disposable;
  run(id: string, ...values: unknown[]): Promise<unknown>;
  /** Set a context key for `when` clauses. */
  setContext(key: string, value: string | number | boolean | readonly string[] | undefined): void;
}

export interface Output {
  trace(text: string): void;
  debug(text: string): void;
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  show(): void;
  /** The last lines written to the channel, for issue reports. */
  tail(lines: number): readonly string[];
  /** The channel of the editor, for the language client only. */
  readonly raw: unknown;
}

export interface Secrets {
  get(key: string): Promise<string | undefined>;
  set(key: string, value: string): Promise<void>;
  delete(key: string): Promise<void>;
}

export interface Memory {
  get<T>(key: string, fallback: T, where?: "workspace" | "global"): T;
  set(key: string, value: unknown, where?: "workspace" | "global"): Promise<void>;
}
