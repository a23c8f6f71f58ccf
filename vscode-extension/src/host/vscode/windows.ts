/** Messages, progress, trees, quick picks, input boxes and the status bar. */

import * as os from "node:os";
import * as vscode from "vscode";
import { DisposableStore, Emitter } from "../../base/events.ts";
import { t } from "../../base/l10n.ts";
import { toErrorInfo } from "../../sidecar/connection.ts";
import type * as h from "../host.ts";
import { toMarkdown, toColor } from "./convert.ts";
import { leftPanel, openPanel, pageView, restorePanels } from "./panels.ts";

const FLASH_MS = 8_000;

export function windowsOf(disposables: DisposableStore): h.Windows {
  const tabsChanged = disposables.add(new Emitter<void>());
  disposables.add(vscode.window.tabGroups.onDidChangeTabs(() => tabsChanged.fire()));
  disposables.add(vscode.window.tabGroups.onDidChangeTabGroups(() => tabsChanged.fire()));
  return {
    tree: (viewId, rows, options) => createTree(viewId, rows, options?.many ?? false),
    pick: showPick,
    input: showInput,
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
    flash: (text) => void vscode.window.setStatusBarMessage(text, FLASH_MS),
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
      const treeItem = vscode.window.createStatusBarItem(id, vscode.StatusBarAlignment.Left, priority);
      treeItem.name = name;
      return {
        set(content) {
          treeItem.text = content.text;
          treeItem.tooltip = toMarkdown(content.tooltip, content.trustedCommands);
          treeItem.accessibilityInformation = { label: content.spoken, role: "button" };
          treeItem.command = content.command;
          treeItem.backgroundColor = content.severity
            ? new vscode.ThemeColor(`statusBarItem.${content.severity}Background`)
            : undefined;
          treeItem.show();
        },
        hide: () => treeItem.hide(),
        dispose: () => treeItem.dispose(),
      };
    },
    panel: openPanel,
    leftPanel: (type) => leftPanel(type, tabsChanged.subscribe),
    restorePanels: (type, restore) => disposables.add(restorePanels(type, restore)),
    pageView: (viewId, open) => disposables.add(pageView(viewId, open)),
    pickFiles: async (title, folder) => {
      const defaultUri = folder === undefined ? {} : { defaultUri: vscode.Uri.parse(folder) };
      const chosen = await vscode.window.showOpenDialog({
        title,
        openLabel: title,
        canSelectMany: true,
        ...defaultUri,
      });
      return (chosen ?? []).map((uri) => uri.toString());
    },
    focusView: async (viewId) => {
      await vscode.commands.executeCommand(`${viewId}.focus`);
    },
    runInTerminal(title, line) {
      const terminal = vscode.window.createTerminal({ name: title, cwd: os.homedir() });
      terminal.show();
      terminal.sendText(line);
    },
    runProgram(title, [shellPath, ...shellArgs]) {
      const env = { TMUX: null, TMUX_PANE: null };
      vscode.window.createTerminal({ name: title, cwd: os.homedir(), env, shellPath, shellArgs }).show();
    },
    runToEnd(title, commands, folder) {
      const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`;
      const line = commands.map((argv) => argv.map(quoted).join(" ")).join(" && ");
      const script = `(set -x; ${line}) || { printf '\\n%s ' "$0"; read -r _; exit 1; }`;
      const shellArgs = ["-c", script, t("Failed. Press Enter to close the terminal.")];
      const terminal = vscode.window.createTerminal({ name: title, cwd: folder, shellPath: "/bin/sh", shellArgs });
      terminal.show();
      return new Promise((resolve) => {
        const closed = vscode.window.onDidCloseTerminal((one) => {
          if (one !== terminal) return;
          closed.dispose();
          resolve(one.exitStatus?.code === 0);
        });
      });
    },
    openFolder: async (path) => {
      await vscode.commands.executeCommand("vscode.openFolder", vscode.Uri.file(path), { forceNewWindow: true });
    },
  };
}

function createTree(viewId: string, rows: h.TreeDataProvider, many: boolean): h.Tree {
  const own = new DisposableStore();
  const changed = own.add(new vscode.EventEmitter<string | string[] | undefined>());
  const visibility = own.add(new Emitter<boolean>());
  // A command on the row itself is lost while the row is being redrawn, and the press on it has no effect.
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
    onDidChangeVisibility: visibility.subscribe,
    reveal: async (id, options = {}) =>
      view.reveal(id, { select: true, focus: options.focus ?? false, expand: options.expand ?? false }),
    setMessage: (message) => (view.message = message),
    setDescription: (description) => (view.description = description),
    setBadge: (count, tooltip) => (view.badge = count > 0 ? { value: count, tooltip } : undefined),
    dispose: () => own.dispose(),
  };
}

function item(id: string, row: h.TreeRow | undefined, opens: string): vscode.TreeItem {
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
  if (row.tooltip !== undefined) result.tooltip = toMarkdown(row.tooltip);
  if (row.icon)
    result.iconPath = new vscode.ThemeIcon(row.icon.id, row.icon.color ? toColor(row.icon.color) : undefined);
  if (row.command) result.command = { command: opens, title: row.command.title };
  if (row.resource !== undefined) result.resourceUri = vscode.Uri.parse(row.resource);
  return result;
}

interface QuickItem extends vscode.QuickPickItem {
  readonly id: string;
}

function showPick(request: h.PickRequest): Promise<h.PickOutcome> {
  const box = vscode.window.createQuickPick<QuickItem>();
  const own = new DisposableStore();
  const gone = new AbortController();
  let items = request.items;
  // Each time that rows are set, the editor gives the focus to the first one.
  let focused = request.active;
  /** Whether the row of `focused` was not among the rows that were set: that focus is not the user's then. */
  let isMissing = false;
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
    const active = box.items.find((q) => q.id === focused);
    isMissing = active === undefined;
    if (active) box.activeItems = [active];
  };
  setHeader(box, request);
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
    own.add(
      box.onDidChangeActive(([active]) => {
        const first = box.items.find(({ kind }) => kind !== vscode.QuickPickItemKind.Separator);
        if (box.value === "" && (active === undefined || (isMissing && active.id === first?.id))) return;
        // Typing filters the rows, and the first that is left gets the focus: that is the user's.
        focused = active?.id;
        isMissing = false;
      }),
    );
    own.add(
      box.onDidChangeValue((value) => {
        focused = value === "" ? request.active : undefined;
        if (request.typedItem) draw();
      }),
    );
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

function showInput(request: h.InputRequest): Promise<h.InputOutcome> {
  const box = vscode.window.createInputBox();
  const own = new DisposableStore();
  let turn = 0;
  setHeader(box, request);
  box.prompt = request.prompt;
  box.value = request.value ?? "";
  box.placeholder = request.placeholder;
  box.password = request.password ?? false;
  const extra = request.button;
  box.buttons = [
    ...(request.back ? [vscode.QuickInputButtons.Back] : []),
    ...(extra ? [{ iconPath: new vscode.ThemeIcon(extra.icon), tooltip: extra.tooltip }] : []),
  ];
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
        wrong = toErrorInfo(error).message; // do not accept a value that could not be checked
      }
      if (now === turn) box.validationMessage = wrong;
      return now === turn && wrong === undefined;
    };
    own.add(box.onDidChangeValue(() => void check()));
    own.add(
      box.onDidTriggerButton((pressed) => {
        const back = pressed === vscode.QuickInputButtons.Back;
        if (!back) extra?.press(box.value);
        end({ kind: back ? "back" : "cancelled" });
      }),
    );
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

function setHeader(box: vscode.QuickInput, request: h.StepHeader): void {
  box.title = request.title;
  box.step = request.step;
  box.totalSteps = request.totalSteps;
  box.ignoreFocusOut = true; // switching to another window must not discard the input
}
