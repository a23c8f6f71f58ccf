/**
 * The editor as the rest of the extension sees it: plain data and small functions, no `vscode` type anywhere.
 * `vscode.ts` beside this file is the one implementation for the editor; `tests/support/fakeHost.ts` the one for tests.
 *
 * Conventions: a URI is a string as `vscode.Uri.toString()` writes it; lines and characters are zero-based; a text that
 * is shown has been through `t()`; Markdown never contains command links that were not asked for (`trustedCommands`).
 */

import type { Disposable, Signal } from "../base/emitter.ts";
import type { Range } from "../protocol.ts";

/** Everything; parts take the few members that they need (`Pick<Host, "windows">`). */
export interface Host {
  readonly environment: Environment;
  readonly workspace: Workspace;
  readonly windows: Windows;
  readonly documents: Documents;
  readonly review: ReviewSurface;
  readonly commands: Commands;
  readonly output: Output;
  readonly secrets: Secrets;
  /** Small values kept for this workspace, or for this person (`global`). */
  readonly memory: Memory;
}

export interface Environment {
  /** Folder of the installed extension: `wheels/`, `media/`. */
  readonly extensionPath: string;
  readonly extensionVersion: string;
  /** The extension's own folder for this person, outside every workspace. */
  readonly storagePath: string;
  readonly editorName: string;
  readonly editorVersion: string;
  readonly platform: NodeJS.Platform;
  /** `ssh-remote`, `dev-container` …; absent when the extension runs where the window is. */
  readonly remoteName?: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly homePath: string;
  copyToClipboard(text: string): Promise<void>;
  openExternal(uri: string): Promise<void>;
}

export interface Folder {
  readonly uri: string;
  /** Path on disk; virtual folders are not offered. */
  readonly path: string;
  readonly name: string;
}

export interface Workspace {
  readonly trusted: boolean;
  readonly onDidGrantTrust: Signal<void>;
  readonly folders: readonly Folder[];
  readonly onDidChangeFolders: Signal<void>;
  /** A setting below `understudy.`, as it applies now. */
  setting<T>(name: string, fallback: T): T;
  /** A setting of the editor itself, by its whole name. */
  editorSetting<T>(name: string, fallback: T): T;
  /** Fires when a setting below `understudy.`, or one of the editor that we look at, changes. */
  readonly onDidChangeSettings: Signal<void>;
}

/** A row of a tree: data only. `id` names it for ever; commands of its menus get the id as their first argument. */
export interface Row {
  readonly id: string;
  readonly label: string;
  readonly description?: string;
  /** Markdown. */
  readonly tooltip?: string;
  /** A codicon, and the id of a theme colour. */
  readonly icon?: { readonly id: string; readonly color?: string };
  readonly children: "none" | "collapsed" | "expanded";
  /** What `when` clauses match as `viewItem`; space-separated words. */
  readonly context: string;
  readonly command?: CommandLink;
  /** What a screen reader says instead of label and description. */
  readonly spoken: string;
  /** Gives the row the decorations of that resource. */
  readonly resource?: string;
}

export interface CommandLink {
  readonly id: string;
  readonly title: string;
  readonly arguments?: readonly unknown[];
}

/** Where a tree gets its rows. All are synchronous: rows come from the store, which never waits. */
export interface Rows {
  /** Ids of what is below, in order; without an id: the roots. */
  children(id?: string): readonly string[];
  /** The row as it is now; undefined when it is gone. */
  row(id: string): Row | undefined;
  parent(id: string): string | undefined;
  /** Ids whose row or children changed; undefined: everything. Fired seldom: the model gathers changes first. */
  readonly onDidChange: Signal<readonly string[] | undefined>;
}

export interface Tree extends Disposable {
  readonly visible: boolean;
  readonly onDidChangeVisibility: Signal<boolean>;
  readonly selection: readonly string[];
  reveal(id: string, options?: { focus?: boolean; expand?: boolean }): Promise<void>;
  /** A line above the rows; undefined takes it away. */
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
  /** A heading; it cannot be picked. */
  readonly separator?: boolean;
  readonly picked?: boolean;
  readonly buttons?: readonly PickButton[];
}

export interface PickButton {
  readonly id: string;
  readonly icon: string;
  readonly tooltip: string;
}

export interface StepHead {
  readonly title: string;
  readonly step?: number;
  readonly totalSteps?: number;
  /** Whether the back button is there. */
  readonly back?: boolean;
}

export interface PickContent {
  readonly items: readonly PickItem[];
  readonly busy?: boolean;
  readonly placeholder?: string;
}

export interface PickRequest extends StepHead, PickContent {
  readonly many?: boolean;
  /** The row that has the focus at first. */
  readonly active?: string;
  readonly buttons?: readonly PickButton[];
  /** An item with this id takes what was typed as it is (`Outcome.typed`); it is shown while something is typed. */
  readonly typedItem?: (typed: string) => PickItem | undefined;
  /** Fill in later what takes time; `signal` is aborted when the pick is gone. */
  readonly live?: (show: (content: Partial<PickContent>) => void, signal: AbortSignal) => void;
}

export type PickOutcome =
  | { readonly kind: "picked"; readonly ids: readonly string[]; readonly typed: string }
  | { readonly kind: "button"; readonly button: string; readonly item?: string }
  | { readonly kind: "back" }
  | { readonly kind: "cancelled" };

export interface InputRequest extends StepHead {
  readonly prompt: string;
  readonly value?: string;
  readonly placeholder?: string;
  readonly password?: boolean;
  /** What is wrong with the text, or undefined. */
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
    /** Commands that Markdown links in the tooltip may run. */
    readonly trustedCommands?: readonly string[];
  }): void;
  hide(): void;
}

export interface Windows {
  tree(viewId: string, rows: Rows, options?: { many?: boolean }): Tree;
  pick(request: PickRequest): Promise<PickOutcome>;
  input(request: InputRequest): Promise<InputOutcome>;
  /** A message with buttons; the text of the button that was pressed. `modal` asks before something is lost. */
  message(
    level: "info" | "warning" | "error",
    text: string,
    options?: { readonly buttons?: readonly string[]; readonly modal?: boolean; readonly detail?: string },
  ): Promise<string | undefined>;
  /** Progress with a title; `cancellable` shows the button that aborts `signal`. */
  progress<T>(
    options: { readonly title: string; readonly where: "notification" | "status"; readonly cancellable?: boolean },
    task: (progress: Progress) => Promise<T>,
  ): Promise<T>;
  /** An item in the status bar; higher `priority` stands further left. */
  statusItem(id: string, name: string, priority: number): StatusItem;
  focusView(viewId: string): Promise<void>;
  /** Open a folder on disk in a window of its own. */
  openFolder(path: string): Promise<void>;
  /** Decorations of resources in trees and tabs. */
  decorate(source: Decorations): Disposable;
}

export interface Decorations {
  decoration(uri: string): { badge?: string; tooltip?: string; color?: string } | undefined;
  readonly onDidChange: Signal<readonly string[]>;
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
  readonly language: string;
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
  readonly beside?: boolean;
  readonly keepFocus?: boolean;
}

export interface Documents {
  readonly active: ActiveEditor | undefined;
  readonly onDidChangeActive: Signal<ActiveEditor | undefined>;
  /** Open documents with these URIs, or all that have changes which are not saved. */
  open(uris?: readonly string[]): readonly OpenText[];
  diagnostics(uri: string): readonly DiagnosticText[];
  show(uri: string, options?: ShowOptions): Promise<void>;
  /** Put the cursor of the active editor at a range; false when it shows another document. */
  select(uri: string, range: Range): boolean;
  /** Save an open document; false when it is not open, or the editor could not. */
  save(uri: string): Promise<boolean>;
  /** A document of Markdown, rendered. */
  preview(uri: string): Promise<void>;
  /** A new untitled document with this text. */
  showText(text: string, language: string): Promise<void>;
  /** Documents of a scheme that only we can write (transcripts). */
  provide(scheme: string, source: VirtualText): Disposable;
  /** Files of a scheme that a person may edit and save (the result side of a review). */
  provideFiles(scheme: string, source: VirtualFiles): Disposable;
  /** Scroll the editors of a document to its end, except where a person has scrolled up. */
  follow(uri: string): void;
  /** Fires with the URI when a document is closed. */
  readonly onDidClose: Signal<string>;
  /** Fires with the URI when a document is saved. */
  readonly onDidSave: Signal<string>;
  /** Fires with the URI when the text of a document of our own schemes (`understudy-…`) has changed in the editor. */
  readonly onDidChangeOwn: Signal<string>;
  links(scheme: string, source: (uri: string, text: string) => readonly TextLink[]): Disposable;
  folds(scheme: string, source: (uri: string, text: string) => readonly Fold[]): Disposable;
  /** Change open documents as one step that one Ctrl+Z takes back. False: the editor refused. */
  edit(changes: readonly { uri: string; range: Range; text: string }[], label: string): Promise<boolean>;
}

export interface VirtualText {
  text(uri: string): string | Promise<string>;
  readonly onDidChange: Signal<string>;
}

export interface VirtualFiles {
  /** Called when somebody is about to see it, and to write on top of it. */
  read(uri: string): Promise<Uint8Array>;
  /** What can be said without anybody seeing it; `changed` grows whenever the content becomes another one. Without it, it is read. */
  stat?(uri: string): Promise<{ readonly size: number; readonly changed: number }>;
  /** Called when a person saves; throws with a message for people. Without it the files are read-only. */
  write?(uri: string, content: Uint8Array): Promise<void>;
  readonly onDidChange: Signal<readonly string[]>;
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

/** Base and result of one file; a side that does not exist is absent. */
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
  /** `note` is the line below the label and its buttons. */
  set(content: {
    readonly label: string;
    readonly note: string;
    readonly context: string;
    readonly range: Range;
  }): void;
}

export interface ReviewSurface {
  diff(pair: DiffPair, options?: ShowOptions): Promise<void>;
  /** The native multi-file diff, in a tab that stays. */
  diffs(title: string, pairs: readonly DiffPair[]): Promise<void>;
  /** The native merge editor; saving it writes `output`. False: this editor has none. */
  merge(sides: { base: string; yours: string; theirs: string; output: string }): Promise<boolean>;
  /** Close the diffs of documents of these schemes, and the other tabs with these titles, except where text is unsaved. */
  close(schemes: readonly string[], titles: readonly string[]): Promise<void>;
  lenses(
    scheme: string,
    source: { lenses(uri: string): readonly Lens[]; readonly onDidChange: Signal<void> },
  ): Disposable;
  /**
   * A bar below a range of a document, that can be folded in: a comment thread that the Comments view does not open for.
   * Its menus match `commentThread == <context>`, and their commands get `id` as their first argument.
   */
  thread(id: string, uri: string, range: Range): Thread;
}

export interface Commands extends Disposable {
  /** Errors of the handler are shown to the person, in words. URIs that a menu passes arrive as strings, bars as their ids. */
  register(id: string, handler: (...values: unknown[]) => unknown): Disposable;
  run(id: string, ...values: unknown[]): Promise<unknown>;
  /** A context key for `when` clauses. */
  setContext(key: string, value: string | number | boolean | undefined): void;
}

export interface Output {
  trace(text: string): void;
  debug(text: string): void;
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
  show(): void;
  /** The last lines that were written, for a report. */
  tail(lines: number): readonly string[];
  /** The editor's own channel, for the language client alone. */
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
