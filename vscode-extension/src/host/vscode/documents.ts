/** Documents, diagnostics, file systems, links and folding ranges. */

import * as vscode from "vscode";
import { DisposableStore, Emitter } from "../../base/events.ts";
import { t } from "../../base/l10n.ts";
import { escapeMarkup } from "../../base/untrustedText.ts";
import { toErrorInfo } from "../../sidecar/connection.ts";
import * as h from "../host.ts";
import { EMPTY, EXTENSION_ID, fromRange, toShowOptions, toRange } from "./convert.ts";

export function documentsOf(disposables: DisposableStore): h.Documents {
  const closed = disposables.add(new Emitter<string>());
  const saved = disposables.add(new Emitter<string>());
  const activeChanged = disposables.add(new Emitter<h.ActiveEditor | undefined>());
  disposables.add(
    vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor, visibleRanges }) => {
      const state = followed.get(textEditor.document);
      if (state && isVisible(visibleRanges, state.last)) state.arrived = true;
    }),
  );
  disposables.add(vscode.workspace.onDidCloseTextDocument((document) => closed.fire(document.uri.toString())));
  disposables.add(vscode.workspace.onDidSaveTextDocument((document) => saved.fire(document.uri.toString())));
  disposables.add(vscode.window.onDidChangeActiveTextEditor((editor) => activeChanged.fire(activeOf(editor))));
  disposables.add(
    vscode.window.tabGroups.onDidChangeTabs(() => {
      // Not every tab has a text editor that reports the change.
      if (!activeOf(vscode.window.activeTextEditor)) activeChanged.fire(activeTab());
    }),
  );
  const selected = disposables.add(new Emitter<h.ActiveEditor>());
  disposables.add(
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
      const active = textEditor === vscode.window.activeTextEditor ? activeOf(textEditor) : undefined;
      if (active) selected.fire(active);
    }),
  );
  const ownChanged = disposables.add(new Emitter<string>());
  disposables.add(
    vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (contentChanges.length > 0 && document.uri.scheme.startsWith(`${EXTENSION_ID}-`)) {
        ownChanged.fire(document.uri.toString());
      }
    }),
  );
  const hints = disposables.add(vscode.languages.createDiagnosticCollection(EXTENSION_ID));
  return {
    get active() {
      return activeOf(vscode.window.activeTextEditor) ?? activeTab();
    },
    onDidChangeActive: activeChanged.subscribe,
    onDidSelect: selected.subscribe,
    get tabs() {
      const { activeTabGroup: active, all } = vscode.window.tabGroups;
      const tabs = [active, ...all.filter((group) => group !== active)].flatMap((group) => group.tabs);
      const files = tabs.flatMap(({ input }) => (input instanceof vscode.TabInputText ? input.uri : []));
      return [...new Set(files.filter(({ scheme }) => scheme === "file").map((uri) => uri.toString()))];
    },
    open: (uris) => {
      const wanted = uris?.map((uri) => vscode.Uri.parse(uri).toString());
      return vscode.workspace.textDocuments
        .filter((document) => (wanted ? wanted.includes(document.uri.toString()) : document.isDirty))
        .map((document) => ({
          uri: document.uri.toString(),
          language: document.languageId,
          text: document.getText(),
          dirty: document.isDirty,
        }));
    },
    diagnostics: (uri) =>
      vscode.languages.getDiagnostics(vscode.Uri.parse(uri)).map((found) => ({
        range: fromRange(found.range),
        severity: (["error", "warning", "information", "hint"] as const)[found.severity],
        message: found.message,
        ...(found.source === undefined ? {} : { source: found.source }),
        ...(found.code === undefined
          ? {}
          : { code: String(typeof found.code === "object" ? found.code.value : found.code) }),
      })),
    setHints(uri, found) {
      const shown = found.map((one) => {
        const hint = new vscode.Diagnostic(toRange(one.range), one.message, vscode.DiagnosticSeverity.Hint);
        if (one.source !== undefined) hint.source = one.source;
        if (one.code !== undefined) hint.code = one.code;
        return hint;
      });
      hints.set(vscode.Uri.parse(uri), shown);
    },
    async show(uri, options = {}) {
      const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
      await vscode.window.showTextDocument(document, toShowOptions(options));
    },
    async save(uri) {
      const wanted = vscode.Uri.parse(uri).toString();
      const document = vscode.workspace.textDocuments.find((open) => open.uri.toString() === wanted);
      return document?.save() ?? false;
    },
    preview: async (uri) => {
      // As an editor, its tab has the name of the document; the command would put “Preview” before it.
      await vscode.commands.executeCommand("vscode.openWith", vscode.Uri.parse(uri), MARKDOWN_PREVIEW);
    },
    async showText(text, language) {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text, language }));
    },
    provide(scheme, source) {
      const own = new DisposableStore();
      const changed = own.add(new vscode.EventEmitter<vscode.Uri>());
      own.add(source.onDidChange((uri) => changed.fire(vscode.Uri.parse(uri))));
      own.add(
        vscode.workspace.registerTextDocumentContentProvider(scheme, {
          onDidChange: changed.event,
          provideTextDocumentContent: (uri) => source.text(uri.toString()),
        }),
      );
      return disposables.add(own);
    },
    provideFiles: (scheme, source) => disposables.add(fileSystem(scheme, source)),
    follow(uri) {
      for (const editor of vscode.window.visibleTextEditors) {
        if (editor.document.uri.toString() !== uri) continue;
        const last = editor.document.lineCount - 1;
        // If the user has scrolled up, they are reading: scroll only if the end was visible before the text grew. An
        // editor that is still being restored may ignore the request, so repeat it until the end was visible once.
        const before = followed.get(editor.document);
        if (before?.arrived && !isVisible(editor.visibleRanges, before.last)) {
          before.last = last;
          continue;
        }
        followed.set(editor.document, { last, arrived: false });
        editor.revealRange(new vscode.Range(last, 0, last, 0), vscode.TextEditorRevealType.Default);
      }
    },
    onDidClose: closed.subscribe,
    onDidSave: saved.subscribe,
    onDidChangeOwn: ownChanged.subscribe,
    links: (scheme, source) =>
      disposables.add(
        vscode.languages.registerDocumentLinkProvider(
          { scheme },
          {
            provideDocumentLinks: (document) =>
              source(document.uri.toString(), document.getText()).map((found) => {
                const link = new vscode.DocumentLink(toRange(found.range), vscode.Uri.parse(found.target));
                if (found.tooltip !== undefined) link.tooltip = found.tooltip;
                return link;
              }),
          },
        ),
      ),
    folds: (scheme, source) =>
      disposables.add(
        vscode.languages.registerFoldingRangeProvider(
          { scheme },
          {
            provideFoldingRanges: (document) =>
              source(document.uri.toString(), document.getText()).map(
                (fold) => new vscode.FoldingRange(fold.start, fold.end),
              ),
          },
        ),
      ),
    async edit(changes, label) {
      const edit = new vscode.WorkspaceEdit();
      for (const change of changes) {
        edit.replace(vscode.Uri.parse(change.uri), toRange(change.range), change.text, {
          label,
          needsConfirmation: false,
        });
      }
      return vscode.workspace.applyEdit(edit);
    },
  };
}

/** The editor of the built-in Markdown extension. */
const MARKDOWN_PREVIEW = "vscode.markdown.preview.editor";

/** For each followed document: its last line when it was scrolled last, and whether that line was visible since. */
const followed = new WeakMap<vscode.TextDocument, { last: number; arrived: boolean }>();

function isVisible(visible: readonly vscode.Range[], line: number): boolean {
  return (visible.at(-1)?.end.line ?? 0) >= line - 2;
}

function activeOf(editor: vscode.TextEditor | undefined): h.ActiveEditor | undefined {
  // In place of a binary file, a multi-file diff has an empty document of its own.
  if (!editor || editor.document.uri.scheme === "inmemory") return undefined;
  return {
    uri: editor.document.uri.toString(),
    selection: fromRange(editor.selection),
    selectionEmpty: editor.selection.isEmpty,
  };
}

/**
 * A file whose tab is open, but not its text: the editor loads it, does not show it to extensions (> 50 MB), or shows
 * that it is binary.
 */
function activeTab(): h.ActiveEditor | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  const uri =
    input instanceof vscode.TabInputText
      ? input.uri
      : input instanceof vscode.TabInputTextDiff
        ? sideOf(input)
        : undefined;
  if (!uri) return undefined;
  const start = { line: 0, character: 0 };
  return { uri: uri.toString(), selection: { start, end: start }, selectionEmpty: true };
}

function sideOf({ original, modified }: vscode.TabInputTextDiff): vscode.Uri {
  return modified.scheme === EMPTY ? original : modified;
}

function fileSystem(scheme: string, source: h.VirtualFiles): DisposableStore {
  const own = new DisposableStore();
  const changed = own.add(new vscode.EventEmitter<vscode.FileChangeEvent[]>());
  let clock = Date.now();
  own.add(
    source.onDidChange((changes) => {
      clock += 1;
      const { Changed, Deleted } = vscode.FileChangeType;
      changed.fire(
        changes.map(({ uri, kind }) => ({ type: kind === "deleted" ? Deleted : Changed, uri: vscode.Uri.parse(uri) })),
      );
    }),
  );
  const refuse = (uri: vscode.Uri): never => {
    throw vscode.FileSystemError.NoPermissions(t("{0} is read-only.", uri.path));
  };
  own.add(
    vscode.workspace.registerFileSystemProvider(
      scheme,
      {
        onDidChangeFile: changed.event,
        watch: () => new vscode.Disposable(() => {}),
        async stat(uri) {
          const name = uri.toString();
          const stat: h.FileStat = await toFileSystemError(
            uri,
            source.stat?.(name) ?? source.read(name).then((content) => ({ size: content.byteLength, changed: clock })),
          );
          const locked = stat.readonly === true || !source.write;
          return {
            type: vscode.FileType.File,
            ctime: 0,
            mtime: stat.changed,
            size: stat.size,
            ...(locked ? { permissions: vscode.FilePermission.Readonly } : {}),
          };
        },
        readFile: (uri) => toFileSystemError(uri, source.read(uri.toString())),
        async writeFile(uri, content) {
          if (!source.write) return refuse(uri);
          await toFileSystemError(uri, source.write(uri.toString(), content));
          clock += 1;
          return undefined;
        },
        readDirectory: () => [],
        createDirectory: refuse,
        delete: refuse,
        rename: refuse,
      },
      { isReadonly: source.write === undefined, isCaseSensitive: true },
    ),
  );
  return own;
}

/** Convert errors for the editor: a file that cannot be read right now is not deleted, and its tab stays. */
async function toFileSystemError<T>(uri: vscode.Uri, found: Promise<T>): Promise<T> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof h.FileMissing) throw vscode.FileSystemError.FileNotFound(uri);
    const { message, hint } = toErrorInfo(error);
    throw vscode.FileSystemError.Unavailable(escapeMarkup(hint ? `${message} ${hint}` : message));
  }
}
