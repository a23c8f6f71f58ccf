/**
 * The only file that touches the `vscode` module: `Host` for the editor. It translates, nothing else; whatever decides
 * belongs to the other side of the interface, where it can be tested.
 */

import * as os from "node:os";
import * as vscode from "vscode";
import { Bag, Emitter } from "../base/emitter.ts";
import { inert, visible } from "../base/inert.ts";
import { setTranslator, t } from "../base/l10n.ts";
import { errorInfo } from "../client/wire.ts";
import type { Range } from "../protocol.ts";
import type * as h from "./host.ts";
import { inertWindows } from "./inertWindows.ts";

const PREFIX = "understudy";
const KEPT_LINES = 2_000;
/** Settings of the editor that features look at. */
const WATCHED = ["diffEditor.codeLens"];

/** Make the host. `context` is what `activate` was given; `bag` ends everything that is made here. */
export function createHost(context: vscode.ExtensionContext, bag: Bag): h.Host {
  setTranslator((message, ...values) => vscode.l10n.t(message, ...values));
  const output = outputOf(bag);
  const commands = commandsOf(bag, output);
  return {
    environment: environmentOf(context),
    workspace: workspaceOf(bag),
    windows: inertWindows(windowsOf(bag)),
    documents: documentsOf(bag),
    review: reviewOf(bag),
    commands,
    output,
    secrets: {
      get: async (key) => context.secrets.get(key),
      set: async (key, value) => context.secrets.store(key, value),
      delete: async (key) => context.secrets.delete(key),
    },
    memory: {
      get: (key, fallback, where = "workspace") =>
        (where === "global" ? context.globalState : context.workspaceState).get(key, fallback),
      set: async (key, value, where = "workspace") =>
        (where === "global" ? context.globalState : context.workspaceState).update(key, value),
    },
  };
}

function environmentOf(context: vscode.ExtensionContext): h.Environment {
  const manifest = context.extension.packageJSON as { version: string };
  return {
    extensionPath: context.extensionPath,
    extensionVersion: manifest.version,
    storagePath: context.globalStorageUri.fsPath,
    editorName: vscode.env.appName,
    editorVersion: vscode.version,
    platform: process.platform,
    ...(vscode.env.remoteName === undefined ? {} : { remoteName: vscode.env.remoteName }),
    variables: process.env,
    homePath: os.homedir(),
    copyToClipboard: async (text) => vscode.env.clipboard.writeText(text),
    openExternal: async (uri) => {
      await vscode.env.openExternal(vscode.Uri.parse(uri));
    },
  };
}

function workspaceOf(bag: Bag): h.Workspace {
  const trust = bag.add(new Emitter<void>());
  const folders = bag.add(new Emitter<void>());
  const settings = bag.add(new Emitter<void>());
  bag.add(vscode.workspace.onDidGrantWorkspaceTrust(() => trust.fire()));
  bag.add(vscode.workspace.onDidChangeWorkspaceFolders(() => folders.fire()));
  bag.add(
    vscode.workspace.onDidChangeConfiguration((e) => {
      if ([PREFIX, ...WATCHED].some((name) => e.affectsConfiguration(name))) settings.fire();
    }),
  );
  return {
    get trusted() {
      return vscode.workspace.isTrusted;
    },
    onDidGrantTrust: trust.signal,
    get folders() {
      return (vscode.workspace.workspaceFolders ?? [])
        .filter((folder) => folder.uri.scheme === "file")
        .map((folder) => ({ uri: folder.uri.toString(), path: folder.uri.fsPath, name: folder.name }));
    },
    onDidChangeFolders: folders.signal,
    setting: (name, fallback) => vscode.workspace.getConfiguration(PREFIX).get(name, fallback),
    editorSetting: (name, fallback) => vscode.workspace.getConfiguration().get(name, fallback),
    onDidChangeSettings: settings.signal,
  };
}

function outputOf(bag: Bag): h.Output {
  const channel = bag.add(vscode.window.createOutputChannel("Understudy", { log: true }));
  const kept: string[] = [];
  const keep = (level: string, text: string): void => {
    kept.push(`${new Date().toISOString()} [${level}] ${text}`);
    if (kept.length > KEPT_LINES) kept.splice(0, kept.length - KEPT_LINES);
  };
  const writer =
    (level: "trace" | "debug" | "info" | "warn" | "error") =>
    (text: string): void => {
      if (level !== "trace") keep(level, text);
      channel[level](text);
    };
  return {
    trace: writer("trace"),
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    show: () => channel.show(true),
    tail: (lines) => kept.slice(-lines),
    raw: channel,
  };
}

function commandsOf(bag: Bag, output: h.Output): h.Commands {
  const own = bag.add(new Bag());
  return {
    register: (id, handler) =>
      own.add(
        vscode.commands.registerCommand(id, async (...values: unknown[]) => {
          try {
            return await handler(...values.map(described));
          } catch (error) {
            const { message, hint } = errorInfo(error);
            output.error(`${id}: ${error instanceof Error ? (error.stack ?? message) : message}`);
            void vscode.window.showErrorMessage(inert(hint ? `${message} ${hint}` : message));
            return undefined;
          }
        }),
      ),
    run: async (id, ...values) => vscode.commands.executeCommand(id, ...values),
    setContext: (key, value) => void vscode.commands.executeCommand("setContext", key, value),
    dispose: () => own.dispose(),
  };
}

/** What menus pass, as plain data: a URI, the URIs of all that is selected, the id of a bar. */
function described(value: unknown): unknown {
  if (value instanceof vscode.Uri) return value.toString();
  if (typeof value === "object" && value !== null && threads.has(value)) return threads.get(value);
  return Array.isArray(value) ? value.map(described) : value;
}

function windowsOf(bag: Bag): h.Windows {
  return {
    tree: (viewId, rows, options) => tree(viewId, rows, options?.many ?? false),
    pick,
    input,
    async message(level, text, options = {}) {
      const show =
        level === "error"
          ? vscode.window.showErrorMessage
          : level === "warning"
            ? vscode.window.showWarningMessage
            : vscode.window.showInformationMessage;
      const detail = options.detail === undefined ? {} : { detail: options.detail };
      return show(text, { modal: options.modal ?? false, ...detail }, ...(options.buttons ?? []));
    },
    progress: async (options, task) =>
      vscode.window.withProgress(
        {
          title: options.title,
          location:
            options.where === "notification" ? vscode.ProgressLocation.Notification : vscode.ProgressLocation.Window,
          cancellable: options.cancellable ?? false,
        },
        async (progress, token) => {
          const controller = new AbortController();
          token.onCancellationRequested(() => controller.abort());
          let done = 0;
          return task({
            signal: controller.signal,
            report(message, percent) {
              const increment = percent === undefined ? undefined : Math.max(0, percent - done);
              done = Math.max(done, percent ?? 0);
              progress.report(increment === undefined ? { message } : { message, increment });
            },
          });
        },
      ),
    statusItem(id, name, priority) {
      const item = vscode.window.createStatusBarItem(id, vscode.StatusBarAlignment.Left, priority);
      item.name = name;
      return {
        set(content) {
          item.text = content.text;
          item.tooltip = markdown(content.tooltip, content.trustedCommands);
          item.accessibilityInformation = { label: content.spoken, role: "button" };
          item.command = content.command;
          item.backgroundColor = content.severity
            ? new vscode.ThemeColor(`statusBarItem.${content.severity}Background`)
            : undefined;
          item.show();
        },
        hide: () => item.hide(),
        dispose: () => item.dispose(),
      };
    },
    focusView: async (viewId) => {
      await vscode.commands.executeCommand(`${viewId}.focus`);
    },
    openFolder: async (path) => {
      await vscode.commands.executeCommand("vscode.openFolder", vscode.Uri.file(path), { forceNewWindow: true });
    },
    decorate(source) {
      const own = new Bag();
      const changed = own.add(new vscode.EventEmitter<vscode.Uri[]>());
      own.add(source.onDidChange((uris) => changed.fire(uris.map((uri) => vscode.Uri.parse(uri)))));
      own.add(
        vscode.window.registerFileDecorationProvider({
          onDidChangeFileDecorations: changed.event,
          provideFileDecoration(uri) {
            const found = source.decoration(uri.toString());
            return found
              ? new vscode.FileDecoration(found.badge, found.tooltip, found.color ? color(found.color) : undefined)
              : undefined;
          },
        }),
      );
      return bag.add(own);
    },
  };
}

/** The tab of a multi-file diff does not say what is in it. */
function isMultiDiff({ input, label }: vscode.Tab, title: string): boolean {
  const known = [vscode.TabInputText, vscode.TabInputTextDiff, vscode.TabInputCustom, vscode.TabInputWebview];
  return label.startsWith(title) && !known.some((kind) => input instanceof kind);
}

function tree(viewId: string, rows: h.Rows, many: boolean): h.Tree {
  const own = new Bag();
  const changed = own.add(new vscode.EventEmitter<string | string[] | undefined>());
  const visibility = own.add(new Emitter<boolean>());
  // A row's own command would be forgotten whenever the row is drawn anew, and a click in that moment be lost.
  const opens = `${viewId}.openSelected`;
  own.add(rows.onDidChange((ids) => changed.fire(ids === undefined ? undefined : [...ids])));
  const view = own.add(
    vscode.window.createTreeView<string>(viewId, {
      canSelectMany: many,
      showCollapseAll: false,
      treeDataProvider: {
        onDidChangeTreeData: changed.event,
        getChildren: (id) => [...rows.children(id)],
        getParent: (id) => rows.parent(id),
        getTreeItem: (id) => item(id, rows.row(id), opens),
      },
    }),
  );
  own.add(
    vscode.commands.registerCommand(opens, async () => {
      const [id] = view.selection;
      const link = id === undefined ? undefined : rows.row(id)?.command;
      if (link) await vscode.commands.executeCommand(link.id, ...(link.arguments ?? []));
    }),
  );
  own.add(view.onDidChangeVisibility((event) => visibility.fire(event.visible)));
  return {
    get visible() {
      return view.visible;
    },
    get selection() {
      return view.selection;
    },
    onDidChangeVisibility: visibility.signal,
    reveal: async (id, options = {}) =>
      view.reveal(id, { select: true, focus: options.focus ?? false, expand: options.expand ?? false }),
    setMessage: (message) => (view.message = message),
    setDescription: (description) => (view.description = description),
    setBadge: (count, tooltip) => (view.badge = count > 0 ? { value: count, tooltip } : undefined),
    dispose: () => own.dispose(),
  };
}

function item(id: string, row: h.Row | undefined, opens: string): vscode.TreeItem {
  if (!row) return new vscode.TreeItem("");
  const states = vscode.TreeItemCollapsibleState;
  const result = new vscode.TreeItem(
    row.label,
    row.children === "none" ? states.None : row.children === "expanded" ? states.Expanded : states.Collapsed,
  );
  result.id = id;
  result.contextValue = row.context;
  result.accessibilityInformation = { label: row.spoken };
  if (row.description !== undefined) result.description = row.description;
  if (row.tooltip !== undefined) result.tooltip = markdown(row.tooltip);
  if (row.icon) result.iconPath = new vscode.ThemeIcon(row.icon.id, row.icon.color ? color(row.icon.color) : undefined);
  if (row.command) result.command = { command: opens, title: row.command.title };
  if (row.resource !== undefined) result.resourceUri = vscode.Uri.parse(row.resource);
  return result;
}

interface QuickItem extends vscode.QuickPickItem {
  readonly id: string;
}

function pick(request: h.PickRequest): Promise<h.PickOutcome> {
  const box = vscode.window.createQuickPick<QuickItem>();
  const own = new Bag();
  const gone = new AbortController();
  let items = request.items;
  let placed = false;
  const buttons = new Map<vscode.QuickInputButton, string>();
  const button = (source: h.PickButton): vscode.QuickInputButton => {
    const made = { iconPath: new vscode.ThemeIcon(source.icon), tooltip: source.tooltip };
    buttons.set(made, source.id);
    return made;
  };
  const quick = (source: h.PickItem): QuickItem => ({
    id: source.id,
    label: source.icon ? `$(${source.icon}) ${source.label}` : source.label,
    ...(source.description === undefined ? {} : { description: source.description }),
    ...(source.detail === undefined ? {} : { detail: source.detail }),
    ...(source.separator ? { kind: vscode.QuickPickItemKind.Separator } : {}),
    ...(source.buttons ? { buttons: source.buttons.map(button) } : {}),
  });
  const draw = (): void => {
    const typed = box.value.trim() === "" ? undefined : request.typedItem?.(box.value.trim());
    box.items = [...items.map(quick), ...(typed ? [{ ...quick(typed), alwaysShow: true }] : [])];
    if (request.many) box.selectedItems = box.items.filter((q) => items.some((i) => i.id === q.id && i.picked));
    const active = box.items.find((q) => q.id === request.active);
    if (active && !placed) {
      box.activeItems = [active];
      placed = true;
    }
  };
  head(box, request);
  box.canSelectMany = request.many ?? false;
  box.matchOnDescription = true;
  box.matchOnDetail = true;
  box.placeholder = request.placeholder;
  box.busy = request.busy ?? false;
  box.buttons = [...(request.back ? [vscode.QuickInputButtons.Back] : []), ...(request.buttons ?? []).map(button)];
  draw();
  return new Promise((resolve) => {
    const end = (outcome: h.PickOutcome): void => {
      resolve(outcome);
      gone.abort();
      own.dispose();
      box.dispose();
    };
    own.add(
      box.onDidAccept(() => {
        const chosen = request.many ? box.selectedItems : box.activeItems;
        if (chosen.length > 0 || request.many) {
          end({ kind: "picked", ids: chosen.map((q) => q.id), typed: box.value.trim() });
        }
      }),
    );
    own.add(
      box.onDidTriggerButton((pressed) => {
        if (pressed === vscode.QuickInputButtons.Back) end({ kind: "back" });
        else end({ kind: "button", button: buttons.get(pressed) ?? "" });
      }),
    );
    own.add(
      box.onDidTriggerItemButton((pressed) =>
        end({ kind: "button", button: buttons.get(pressed.button) ?? "", item: pressed.item.id }),
      ),
    );
    own.add(box.onDidHide(() => end({ kind: "cancelled" })));
    if (request.typedItem) own.add(box.onDidChangeValue(draw));
    box.show();
    request.live?.((content) => {
      if (gone.signal.aborted) return;
      if (content.items) {
        items = content.items;
        draw();
      }
      if (content.busy !== undefined) box.busy = content.busy;
      if (content.placeholder !== undefined) box.placeholder = content.placeholder;
    }, gone.signal);
  });
}

function input(request: h.InputRequest): Promise<h.InputOutcome> {
  const box = vscode.window.createInputBox();
  const own = new Bag();
  let turn = 0;
  head(box, request);
  box.prompt = request.prompt;
  box.value = request.value ?? "";
  box.placeholder = request.placeholder;
  box.password = request.password ?? false;
  box.buttons = request.back ? [vscode.QuickInputButtons.Back] : [];
  return new Promise((resolve) => {
    const end = (outcome: h.InputOutcome): void => {
      resolve(outcome);
      own.dispose();
      box.dispose();
    };
    const check = async (): Promise<boolean> => {
      const now = ++turn;
      let wrong: string | undefined;
      try {
        wrong = await request.validate?.(box.value);
      } catch (error) {
        wrong = errorInfo(error).message; // what cannot be checked is not taken
      }
      if (now === turn) box.validationMessage = wrong;
      return now === turn && wrong === undefined;
    };
    own.add(box.onDidChangeValue(() => void check()));
    own.add(box.onDidTriggerButton(() => end({ kind: "back" })));
    own.add(box.onDidHide(() => end({ kind: "cancelled" })));
    own.add(
      box.onDidAccept(async () => {
        box.busy = true;
        const { value } = box;
        const good = await check();
        box.busy = false;
        if (good) end({ kind: "accepted", value });
      }),
    );
    box.show();
  });
}

function head(box: vscode.QuickInput, request: h.StepHead): void {
  box.title = request.title;
  box.step = request.step;
  box.totalSteps = request.totalSteps;
  box.ignoreFocusOut = true; // a look at another window must not lose what was entered
}

function documentsOf(bag: Bag): h.Documents {
  const closed = bag.add(new Emitter<string>());
  const saved = bag.add(new Emitter<string>());
  const activeChanged = bag.add(new Emitter<h.ActiveEditor | undefined>());
  const ownChanged = bag.add(new Emitter<string>());
  bag.add(
    vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor, visibleRanges }) => {
      const state = followed.get(textEditor.document);
      if (state && inSight(visibleRanges, state.last)) state.arrived = true;
    }),
  );
  bag.add(
    vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (contentChanges.length > 0 && document.uri.scheme.startsWith(`${PREFIX}-`)) {
        ownChanged.fire(document.uri.toString());
      }
    }),
  );
  bag.add(vscode.workspace.onDidCloseTextDocument((document) => closed.fire(document.uri.toString())));
  bag.add(vscode.workspace.onDidSaveTextDocument((document) => saved.fire(document.uri.toString())));
  bag.add(vscode.window.onDidChangeActiveTextEditor((editor) => activeChanged.fire(activeOf(editor))));
  return {
    get active() {
      return activeOf(vscode.window.activeTextEditor);
    },
    onDidChangeActive: activeChanged.signal,
    open: (uris) =>
      vscode.workspace.textDocuments
        .filter((document) => (uris ? uris.includes(document.uri.toString()) : document.isDirty))
        .map((document) => ({
          uri: document.uri.toString(),
          language: document.languageId,
          text: document.getText(),
          dirty: document.isDirty,
        })),
    diagnostics: (uri) =>
      vscode.languages.getDiagnostics(vscode.Uri.parse(uri)).map((found) => ({
        range: plain(found.range),
        severity: (["error", "warning", "information", "hint"] as const)[found.severity],
        message: found.message,
        ...(found.source === undefined ? {} : { source: found.source }),
        ...(found.code === undefined
          ? {}
          : { code: String(typeof found.code === "object" ? found.code.value : found.code) }),
      })),
    async show(uri, options = {}) {
      const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
      await vscode.window.showTextDocument(document, showOptions(options));
    },
    select(uri, where) {
      const editor = vscode.window.activeTextEditor;
      if (editor?.document.uri.toString() !== vscode.Uri.parse(uri).toString()) return false;
      const { start } = range(where);
      editor.selection = new vscode.Selection(start, start);
      editor.revealRange(range(where), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      return true;
    },
    async save(uri) {
      const wanted = vscode.Uri.parse(uri).toString();
      const document = vscode.workspace.textDocuments.find((open) => open.uri.toString() === wanted);
      return document?.save() ?? false;
    },
    preview: async (uri) => {
      await vscode.commands.executeCommand("markdown.showPreview", vscode.Uri.parse(uri));
    },
    async showText(text, language) {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text, language }));
    },
    provide(scheme, source) {
      const own = new Bag();
      const changed = own.add(new vscode.EventEmitter<vscode.Uri>());
      own.add(source.onDidChange((uri) => changed.fire(vscode.Uri.parse(uri))));
      own.add(
        vscode.workspace.registerTextDocumentContentProvider(scheme, {
          onDidChange: changed.event,
          provideTextDocumentContent: (uri) => source.text(uri.toString()),
        }),
      );
      return bag.add(own);
    },
    provideFiles: (scheme, source) => bag.add(files(scheme, source)),
    follow(uri) {
      for (const editor of vscode.window.visibleTextEditors) {
        if (editor.document.uri.toString() !== uri) continue;
        const last = editor.document.lineCount - 1;
        // Whoever has scrolled up reads: the end must have been in sight before it moved away. An editor that still
        // restores itself may lose what it is told, so that it is told until the end was in sight once.
        const before = followed.get(editor.document);
        if (before?.arrived && !inSight(editor.visibleRanges, before.last)) {
          before.last = last;
          continue;
        }
        followed.set(editor.document, { last, arrived: false });
        editor.revealRange(new vscode.Range(last, 0, last, 0), vscode.TextEditorRevealType.Default);
      }
    },
    onDidClose: closed.signal,
    onDidSave: saved.signal,
    onDidChangeOwn: ownChanged.signal,
    links: (scheme, source) =>
      bag.add(
        vscode.languages.registerDocumentLinkProvider(
          { scheme },
          {
            provideDocumentLinks: (document) =>
              source(document.uri.toString(), document.getText()).map((found) => {
                const link = new vscode.DocumentLink(range(found.range), vscode.Uri.parse(found.target));
                if (found.tooltip !== undefined) link.tooltip = found.tooltip;
                return link;
              }),
          },
        ),
      ),
    folds: (scheme, source) =>
      bag.add(
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
        edit.replace(vscode.Uri.parse(change.uri), range(change.range), change.text, {
          label,
          needsConfirmation: false,
        });
      }
      return vscode.workspace.applyEdit(edit);
    },
  };
}

/** Last line of each followed document when it was followed last, and whether it was in sight since. */
const followed = new WeakMap<vscode.TextDocument, { last: number; arrived: boolean }>();

function inSight(visible: readonly vscode.Range[], line: number): boolean {
  return (visible.at(-1)?.end.line ?? 0) >= line - 2;
}

function activeOf(editor: vscode.TextEditor | undefined): h.ActiveEditor | undefined {
  return (
    editor && {
      uri: editor.document.uri.toString(),
      language: editor.document.languageId,
      selection: plain(editor.selection),
      selectionEmpty: editor.selection.isEmpty,
    }
  );
}

function files(scheme: string, source: h.VirtualFiles): Bag {
  const own = new Bag();
  const changed = own.add(new vscode.EventEmitter<vscode.FileChangeEvent[]>());
  let clock = Date.now();
  own.add(
    source.onDidChange((uris) => {
      clock += 1;
      changed.fire(uris.map((uri) => ({ type: vscode.FileChangeType.Changed, uri: vscode.Uri.parse(uri) })));
    }),
  );
  const refuse = (): never => {
    throw vscode.FileSystemError.NoPermissions(t("Only existing files of a result can be changed."));
  };
  own.add(
    vscode.workspace.registerFileSystemProvider(
      scheme,
      {
        onDidChangeFile: changed.event,
        watch: () => new vscode.Disposable(() => {}),
        async stat(uri) {
          const name = uri.toString();
          const { size, changed: mtime } = await orFault(
            uri,
            source.stat?.(name) ?? source.read(name).then((content) => ({ size: content.byteLength, changed: clock })),
          );
          return { type: vscode.FileType.File, ctime: 0, mtime, size };
        },
        readFile: (uri) => orFault(uri, source.read(uri.toString())),
        async writeFile(uri, content) {
          if (!source.write) return refuse();
          try {
            await source.write(uri.toString(), content);
            clock += 1;
            return undefined;
          } catch (error) {
            const { message, hint } = errorInfo(error);
            throw new Error(inert(hint ? `${message} ${hint}` : message), { cause: error });
          }
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

/** As the editor calls it: what cannot be read at the moment is not gone, and its tab stays as it is. */
async function orFault<T>(uri: vscode.Uri, found: Promise<T>): Promise<T> {
  try {
    return await found;
  } catch (error) {
    const { kind, message, hint } = errorInfo(error);
    if (kind !== "connection_failed" && kind !== "timed_out") throw vscode.FileSystemError.FileNotFound(uri);
    throw vscode.FileSystemError.Unavailable(hint ? `${message} ${hint}` : message);
  }
}

function reviewOf(bag: Bag): h.ReviewSurface {
  let controller: vscode.CommentController | undefined;
  // It is called as the other side is, so that both are of one language.
  const empty = (other: string | undefined): vscode.Uri =>
    vscode.Uri.from({ scheme: "understudy-empty", path: other === undefined ? "/" : vscode.Uri.parse(other).path });
  bag.add(
    vscode.workspace.registerTextDocumentContentProvider("understudy-empty", { provideTextDocumentContent: () => "" }),
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
        showOptions(options),
      );
    },
    async diffs(title, pairs) {
      const before = vscode.window.tabGroups.all.flatMap(({ tabs }) =>
        tabs.filter((tab) => isMultiDiff(tab, title) && !tab.isDirty),
      );
      await vscode.commands.executeCommand(
        "vscode.changes",
        title,
        pairs.map((pair) => [side(pair.result ?? pair.base), side(pair.base), side(pair.result)]),
      );
      // It opens as a preview, in whose place the next file that is looked at would come.
      await vscode.commands.executeCommand("workbench.action.keepEditor");
      await vscode.window.tabGroups.close(before); // it opens anew each time
    },
    async merge({ base, yours, theirs, output }) {
      // Not a part of the API, so it may be gone one day.
      if (!(await vscode.commands.getCommands(false)).includes("_open.mergeEditor")) return false;
      await vscode.commands.executeCommand("_open.mergeEditor", {
        base: vscode.Uri.parse(base),
        input1: { uri: vscode.Uri.parse(yours), title: t("Yours") },
        input2: { uri: vscode.Uri.parse(theirs), title: t("Delegated") },
        output: vscode.Uri.parse(output),
      });
      return true;
    },
    async close(schemes, titles) {
      const ours = (tab: vscode.Tab): boolean => {
        const { input, label, isDirty } = tab;
        if (isDirty) return false;
        if (input instanceof vscode.TabInputText) return schemes.includes(input.uri.scheme);
        if (input instanceof vscode.TabInputTextDiff) {
          return [input.original, input.modified].some(({ scheme }) => schemes.includes(scheme));
        }
        if (input instanceof vscode.TabInputWebview) return titles.some((title) => label.endsWith(title)); // a preview
        return titles.some((title) => isMultiDiff(tab, title));
      };
      await vscode.window.tabGroups.close(vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs.filter(ours)));
    },
    lenses(scheme, source) {
      const own = new Bag();
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
                .map((lens) => new vscode.CodeLens(range(lens.range), command(lens.command))),
          },
        ),
      );
      return bag.add(own);
    },
    thread(id, uri, where) {
      controller ??= bag.add(vscode.comments.createCommentController(PREFIX, "Understudy"));
      const thread = controller.createCommentThread(vscode.Uri.parse(uri), range(where), []);
      thread.canReply = false;
      thread.collapsibleState = vscode.CommentThreadCollapsibleState.Expanded;
      threads.set(thread, id);
      return {
        set(content) {
          thread.label = visible(content.label);
          // Without a comment the bar has a trash can for a button, which throws it away. One whose body is empty does
          // not bring up the Comments view; its author's name is what is read.
          const note = { body: "", mode: vscode.CommentMode.Preview, author: { name: visible(content.note) } };
          thread.comments = [note];
          thread.contextValue = content.context;
          thread.range = range(content.range);
        },
        dispose: () => thread.dispose(),
      };
    },
  };
}

/** The ids of bars: their menus pass the thread itself. */
const threads = new WeakMap<object, string>();

function showOptions(options: h.ShowOptions): vscode.TextDocumentShowOptions {
  return {
    preview: options.preview ?? true,
    preserveFocus: options.keepFocus ?? false,
    ...(options.beside ? { viewColumn: vscode.ViewColumn.Beside } : {}),
    ...(options.range ? { selection: range(options.range) } : {}),
  };
}

function markdown(text: string, trusted: readonly string[] = []): vscode.MarkdownString {
  const result = new vscode.MarkdownString(text, true);
  if (trusted.length > 0) result.isTrusted = { enabledCommands: [...trusted] };
  return result;
}

function command(link: h.CommandLink): vscode.Command {
  return { command: link.id, title: link.title, arguments: [...(link.arguments ?? [])] };
}

function color(id: string): vscode.ThemeColor {
  return new vscode.ThemeColor(id);
}

function range({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}

function plain({ start, end }: vscode.Range): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}
