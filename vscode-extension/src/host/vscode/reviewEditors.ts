/** Diff editors, the merge editor, code lenses and comment threads. */

import * as vscode from "vscode";
import { toShowOptions, toRange, toCommand, EMPTY, EXTENSION_ID } from "./convert.ts";
import type * as h from "../host.ts";
import { sanitize } from "../../base/untrustedText.ts";
import { t } from "../../base/l10n.ts";
import { DisposableStore } from "../../base/events.ts";

/** Opens a multi-file diff with an identity and a place. Not part of the public API; it may be removed. */
const NAMED_DIFFS = "_workbench.openMultiDiffEditor";

/** Limit of the wait for the effect of a command. */
const ACTIVE_MS = 2_000;

/**
 * Wait until a document has the active editor, move its cursor, and scroll to it. VS Code reports the editor that a
 * command has opened only after the command, and the cursor after that: a key pressed at once would find the old place.
 * A multi-file diff scrolls to the file; the place in it is lost if it is not drawn yet.
 */
async function placeCursor(uri: string, position: vscode.Position): Promise<void> {
  const isIt = (editor: vscode.TextEditor | undefined): boolean =>
    editor?.document.uri.toString() === vscode.Uri.parse(uri).toString();
  await until(vscode.window.onDidChangeActiveTextEditor, () => isIt(vscode.window.activeTextEditor));
  const editor = vscode.window.activeTextEditor;
  if (!editor || !isIt(editor)) return;
  editor.selection = new vscode.Selection(position, position);
  editor.revealRange(new vscode.Range(position, position), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

/** Wait until a condition is true, at most `ACTIVE_MS`; it is tested after each event. */
async function until<T>(changed: vscode.Event<T>, isTrue: () => boolean): Promise<void> {
  if (isTrue()) return;
  const waiting = new DisposableStore();
  await new Promise<void>((resolve) => {
    const limit = setTimeout(resolve, ACTIVE_MS);
    waiting.add({ dispose: () => clearTimeout(limit) });
    waiting.add(changed(() => isTrue() && resolve()));
  });
  waiting.dispose();
}

/** The class of this input is not part of the public API (`TabInputTextMerge`). */
interface MergeInput {
  readonly base: vscode.Uri;
  readonly input1: vscode.Uri;
  readonly input2: vscode.Uri;
  readonly result: vscode.Uri;
}

function isMergeInput(input: unknown): input is MergeInput {
  if (typeof input !== "object" || input === null) return false;
  const { base, input1, input2, result } = input as Partial<Record<keyof MergeInput, unknown>>;
  return [base, input1, input2, result].every((uri) => uri instanceof vscode.Uri);
}

function isSameMerge(input: unknown, other: MergeInput): boolean {
  if (!isMergeInput(input)) return false;
  const sides = ["base", "input1", "input2", "result"] as const;
  return sides.every((side) => input[side].toString() === other[side].toString());
}

/** The merge editors that write a file. */
function mergesInto(output: string): readonly { readonly tab: vscode.Tab; readonly input: MergeInput }[] {
  const wanted = vscode.Uri.parse(output).toString();
  return vscode.window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .flatMap((tab) => {
      const { input } = tab;
      return isMergeInput(input) && input.result.toString() === wanted ? [{ tab, input }] : [];
    });
}

/** A tab with a multi-file diff has no input type of its own. */
export function isMultiDiff({ input, label }: vscode.Tab, title: string): boolean {
  const known = [vscode.TabInputText, vscode.TabInputTextDiff, vscode.TabInputCustom, vscode.TabInputWebview];
  return label.startsWith(title) && !known.some((kind) => input instanceof kind);
}

export function reviewEditorsOf(disposables: DisposableStore): h.ReviewEditors {
  let controller: vscode.CommentController | undefined;
  const commentController = (): vscode.CommentController =>
    (controller ??= disposables.add(vscode.comments.createCommentController(EXTENSION_ID, "Understudy")));
  // Give the empty side the path of the other one, so that both have the same language.
  const empty = (other: string | undefined): vscode.Uri =>
    vscode.Uri.from({ scheme: EMPTY, path: other === undefined ? "/" : vscode.Uri.parse(other).path });
  disposables.add(
    vscode.workspace.registerTextDocumentContentProvider(EMPTY, { provideTextDocumentContent: () => "" }),
  );
  const side = (uri: string | undefined): vscode.Uri | undefined =>
    uri === undefined ? undefined : vscode.Uri.parse(uri);
  return {
    async diff(pair, options = {}) {
      await vscode.commands.executeCommand(
        "vscode.diff",
        side(pair.base) ?? empty(pair.result),
        side(pair.result) ?? empty(pair.base),
        pair.label,
        toShowOptions(options),
      );
      if (options.range && pair.result) await placeCursor(pair.result, toRange(options.range).start);
    },
    async diffs(title, pairs, tab) {
      const before = vscode.window.tabGroups.all.flatMap(({ tabs }) =>
        tabs.filter((one) => isMultiDiff(one, title) && !one.isDirty),
      );
      if (tab && (await vscode.commands.getCommands(false)).includes(NAMED_DIFFS)) {
        if (!tab.opened) await vscode.window.tabGroups.close(before);
        const result = (pair: h.DiffPair): vscode.Uri => side(pair.result) ?? empty(pair.base);
        const { at } = tab;
        const active = vscode.window.activeTextEditor?.document.uri.toString();
        const isActive = (uri: string | undefined): boolean => uri !== undefined && side(uri)?.toString() === active;
        if (at && !isActive(at.pair.result) && pairs.some(({ base, result: one }) => isActive(base) || isActive(one))) {
          // While one of its files has the focus, the tab does not give it to another one. The next part would be wrong:
          // after the side bar, where a row was clicked, that is the editor.
          await vscode.commands.executeCommand("workbench.action.focusStatusBar");
        }
        const range = at?.range && toRange(at.range);
        const [startLineNumber, endLineNumber] = range ? [range.start.line + 1, range.end.line + 1] : [1, 1];
        await vscode.commands.executeCommand(NAMED_DIFFS, {
          title,
          multiDiffSourceUri: vscode.Uri.from({ scheme: "understudy-review", path: `/${tab.id}` }),
          resources: pairs.map((pair) => ({ originalUri: side(pair.base), modifiedUri: result(pair) })),
          ...(at && {
            reveal: {
              modifiedUri: result(at.pair),
              range: { startLineNumber, startColumn: 1, endLineNumber, endColumn: 1 },
            },
          }),
        });
        if (!tab.opened) await vscode.commands.executeCommand("workbench.action.keepEditor");
        if (at?.pair.result && range) await placeCursor(at.pair.result, range.start);
        return;
      }
      await vscode.commands.executeCommand(
        "vscode.changes",
        title,
        pairs.map((pair) => [side(pair.result ?? pair.base), side(pair.base), side(pair.result)]),
      );
      // It opens as a preview, which the next opened file would replace.
      await vscode.commands.executeCommand("workbench.action.keepEditor");
      await vscode.window.tabGroups.close(before); // a new tab opens each time
    },
    isActive(title) {
      const { activeTab } = vscode.window.tabGroups.activeTabGroup;
      return activeTab !== undefined && isMultiDiff(activeTab, title);
    },
    async merge({ base, yours, theirs, output }) {
      // Not part of the public API; it may be removed.
      if (!(await vscode.commands.getCommands(false)).includes("_open.mergeEditor")) return false;
      await vscode.commands.executeCommand("_open.mergeEditor", {
        base: vscode.Uri.parse(base),
        input1: { uri: vscode.Uri.parse(yours), title: t("Yours") },
        input2: { uri: vscode.Uri.parse(theirs), title: t("Delegated") },
        output: vscode.Uri.parse(output),
      });
      return true;
    },
    async saveMerge(output) {
      const { tabGroups } = vscode.window;
      const changed: vscode.Event<unknown> = (listener: (event: unknown) => unknown) =>
        vscode.Disposable.from(tabGroups.onDidChangeTabs(listener), tabGroups.onDidChangeTabGroups(listener));
      for (const { tab, input } of mergesInto(output)) {
        if (!tab.isDirty) continue;
        // What is active is saved, and a merge editor that is open is shown again instead of another one.
        await vscode.commands.executeCommand("_open.mergeEditor", {
          base: input.base,
          input1: { uri: input.input1, title: t("Yours") },
          input2: { uri: input.input2, title: t("Delegated") },
          output: input.result,
        });
        const isActive = (): boolean => isSameMerge(tabGroups.activeTabGroup.activeTab?.input, input);
        await until(changed, isActive);
        // Something else may be active, because the user has moved on or the editor could not be opened.
        if (!isActive()) return false;
        await vscode.commands.executeCommand("workbench.action.files.save");
        await until(changed, () => !mergesInto(output).some((one) => one.tab.isDirty));
      }
      return !mergesInto(output).some(({ tab }) => tab.isDirty);
    },
    async closeMerge(output) {
      const saved = mergesInto(output).filter(({ tab }) => !tab.isDirty);
      await vscode.window.tabGroups.close(saved.map(({ tab }) => tab));
    },
    async close(schemes, titles) {
      const ours = (tab: vscode.Tab): boolean => {
        const { input, isDirty } = tab;
        if (isDirty) return false;
        if (input instanceof vscode.TabInputText || input instanceof vscode.TabInputCustom)
          return schemes.includes(input.uri.scheme);
        if (input instanceof vscode.TabInputTextDiff) {
          return [input.original, input.modified].some(({ scheme }) => schemes.includes(scheme));
        }
        return titles.some((title) => isMultiDiff(tab, title));
      };
      await vscode.window.tabGroups.close(vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.filter(ours)));
    },
    lenses(scheme, source) {
      const own = new DisposableStore();
      const changed = own.add(new vscode.EventEmitter<void>());
      own.add(source.onDidChange(() => changed.fire()));
      own.add(
        vscode.languages.registerCodeLensProvider(
          { scheme },
          {
            onDidChangeCodeLenses: changed.event,
            provideCodeLenses: (document) =>
              source
                .lenses(document.uri.toString())
                .map((lens) => new vscode.CodeLens(toRange(lens.range), toCommand(lens.command))),
          },
        ),
      );
      return disposables.add(own);
    },
    thread(id, uri, where) {
      // A thread of the whole file must be made without a range, which the type of the function does not allow.
      const place = [vscode.Uri.parse(uri), where && toRange(where)] as unknown as [vscode.Uri, vscode.Range];
      const thread = commentController().createCommentThread(...place, []);
      thread.canReply = false;
      thread.collapsibleState = vscode.CommentThreadCollapsibleState.Expanded;
      threadIds.set(thread, id);
      let collapsed = false;
      return {
        set(content) {
          // Only when it changes: the user may have expanded it.
          if (collapsed !== (content.collapsed ?? false)) {
            collapsed = content.collapsed ?? false;
            const { Collapsed, Expanded } = vscode.CommentThreadCollapsibleState;
            thread.collapsibleState = collapsed ? Collapsed : Expanded;
          }
          thread.label = sanitize(content.label);
          // Without a comment, the bar has a trash button that deletes it. A comment with an empty body does not open
          // the Comments view; the name of its author is what the user reads.
          const note = { body: "", mode: vscode.CommentMode.Preview, author: { name: sanitize(content.note) } };
          thread.comments = [note];
          thread.contextValue = content.context;
          if (content.range) thread.range = toRange(content.range);
        },
        dispose: () => thread.dispose(),
      };
    },
    grey(scheme, source) {
      const own = new DisposableStore();
      const styles = [false, true].map((struck) => own.add(greyed(struck)));
      const draw = (): void => {
        for (const editor of vscode.window.visibleTextEditors) {
          if (editor.document.uri.scheme !== scheme) continue;
          const lines = source.lines(editor.document.uri.toString());
          for (const [index, style] of styles.entries()) {
            const struck = index === 1;
            editor.setDecorations(style, lines.filter((one) => one.struck === struck).flatMap(toDecorations));
          }
        }
      };
      own.add(source.onDidChange(draw));
      own.add(vscode.window.onDidChangeVisibleTextEditors(draw));
      return disposables.add(own);
    },
    comments(scheme, open) {
      let shown: vscode.CommentThread[] = [];
      commentController().commentingRangeProvider = {
        provideCommentingRanges: ({ uri, lineCount }) =>
          uri.scheme === scheme && open(uri.toString()) ? [new vscode.Range(0, 0, lineCount - 1, 0)] : [],
      };
      return {
        set(comments) {
          for (const thread of shown) thread.dispose();
          shown = comments.map(({ uri, line, text }) => {
            const comment = { body: text, mode: vscode.CommentMode.Preview, author: { name: t("You") } };
            const at = new vscode.Range(line, 0, line, 0);
            const thread = commentController().createCommentThread(vscode.Uri.parse(uri), at, [comment]);
            thread.canReply = false;
            thread.contextValue = "comment";
            thread.label = t("Goes to the agent when you send the result back");
            thread.collapsibleState = vscode.CommentThreadCollapsibleState.Expanded;
            threadComments.set(thread, { uri, line, text });
            return thread;
          });
        },
      };
    },
  };
}

function greyed(struck: boolean): vscode.TextEditorDecorationType {
  return vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    opacity: "0.55",
    ...(struck ? { textDecoration: "line-through" } : {}),
  });
}

/** The lines, and the note after the first one. */
function toDecorations({ line, count, note }: h.GreyedLines): vscode.DecorationOptions[] {
  const after = {
    contentText: note,
    color: new vscode.ThemeColor("editorCodeLens.foreground"),
    margin: "0 0 0 3ch",
    textDecoration: "none",
    fontStyle: "italic",
  };
  const most = Number.MAX_SAFE_INTEGER;
  return [
    ...(count > 0 ? [{ range: new vscode.Range(line, 0, line + count - 1, most) }] : []),
    ...(note === "" ? [] : [{ range: new vscode.Range(line, most, line, most), renderOptions: { after } }]),
  ];
}

/** IDs of bars: menus pass the comment thread itself. */
export const threadIds = new WeakMap<object, string>();

/** The same for comments of the user. */
const threadComments = new WeakMap<object, h.LineComment>();

/** The comment that a menu of a thread is about: one of the user, or what they typed into a new thread. */
export function lineComment(value: object): h.LineComment | undefined {
  const known = threadComments.get(value);
  if (known) return known;
  const { thread, text } = value as Partial<vscode.CommentReply>;
  if (!thread?.range || text === undefined) return undefined;
  const typed = { uri: thread.uri.toString(), line: thread.range.end.line, text };
  thread.dispose(); // the comment is shown in a thread of its own
  return typed;
}
