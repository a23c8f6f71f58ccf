/**
 * `Host` for VS Code. Only this folder imports `vscode`. It translates and decides nothing: decisions belong to the
 * other side of the interface, where they can be tested.
 */

import { readFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { DisposableStore, Emitter } from "../../base/events.ts";
import { escapeMarkup } from "../../base/untrustedText.ts";
import { setTranslator, t } from "../../base/l10n.ts";
import { repairing, SidecarError, toErrorInfo } from "../../sidecar/connection.ts";
import type * as h from "../host.ts";
import { plainTextWindows } from "../plainTextWindows.ts";
import { assistantsOf } from "./assistants.ts";
import { EXTENSION_ID } from "./convert.ts";
import { lineComment, reviewEditorsOf, threadIds } from "./reviewEditors.ts";
import { documentsOf } from "./documents.ts";
import { windowsOf } from "./windows.ts";

const MAX_LOG_LINES = 2_000;

/** Editor settings that features use. */
const EDITOR_SETTINGS = ["diffEditor.codeLens", "editor.codeLens"];

/** Folders of files that tools install or create; those of `files.exclude` are left out, too. */
const INSTALLED = "**/{.git,.venv,venv,node_modules,__pycache__,.tox,.mypy_cache,target}/**";

/** Create the host. `context` comes from `activate`; `disposables` ends everything that is created here. */
export function createHost(context: vscode.ExtensionContext, disposables: DisposableStore): h.Host {
  setTranslator((message, ...values) => vscode.l10n.t(message, ...values));
  const output = outputOf(disposables);
  const commands = commandsOf(disposables, output);
  return {
    environment: environmentOf(context),
    workspace: workspaceOf(disposables),
    windows: plainTextWindows(windowsOf(disposables)),
    documents: documentsOf(disposables),
    review: reviewEditorsOf(disposables),
    assistants: assistantsOf((line) => output.debug(line)),
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
    language: vscode.env.language,
    translations: vscode.l10n.bundle ?? {},
    variables: process.env,
    homePath: os.homedir(),
    pageAsset: (name) => readFileSync(path.join(context.extensionPath, "dist", name), "utf8"),
    copyToClipboard: async (text) => vscode.env.clipboard.writeText(text),
    openExternal: async (uri) => {
      await vscode.env.openExternal(vscode.Uri.parse(uri));
    },
  };
}

function workspaceOf(disposables: DisposableStore): h.Workspace {
  const trust = disposables.add(new Emitter<void>());
  const folders = disposables.add(new Emitter<void>());
  const settings = disposables.add(new Emitter<void>());
  disposables.add(vscode.workspace.onDidGrantWorkspaceTrust(() => trust.fire()));
  disposables.add(vscode.workspace.onDidChangeWorkspaceFolders(() => folders.fire()));
  disposables.add(
    vscode.workspace.onDidChangeConfiguration((e) => {
      if ([EXTENSION_ID, ...EDITOR_SETTINGS].some((name) => e.affectsConfiguration(name))) settings.fire();
    }),
  );
  return {
    get trusted() {
      return vscode.workspace.isTrusted;
    },
    onDidGrantTrust: trust.subscribe,
    get folders() {
      return (vscode.workspace.workspaceFolders ?? [])
        .filter((folder) => folder.uri.scheme === "file")
        .map((folder) => ({ uri: folder.uri.toString(), path: folder.uri.fsPath, name: folder.name }));
    },
    onDidChangeFolders: folders.subscribe,
    findFiles: async (glob, most) =>
      (await vscode.workspace.findFiles(glob, INSTALLED, most))
        .filter(({ scheme }) => scheme === "file")
        .map((uri) => uri.toString()),
    setting: (name, fallback) => vscode.workspace.getConfiguration(EXTENSION_ID).get(name, fallback),
    setEditorSetting: async (name, value) =>
      vscode.workspace.getConfiguration().update(name, value, vscode.ConfigurationTarget.Global),
    editorSetting: (name, fallback) => vscode.workspace.getConfiguration().get(name, fallback),
    onDidChangeSettings: settings.subscribe,
  };
}

function outputOf(disposables: DisposableStore): h.Output {
  const channel = disposables.add(vscode.window.createOutputChannel("Understudy", { log: true }));
  const kept: string[] = [];
  const keep = (level: string, text: string): void => {
    kept.push(`${new Date().toISOString()} [${level}] ${text}`);
    if (kept.length > MAX_LOG_LINES) kept.splice(0, kept.length - MAX_LOG_LINES);
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

function commandsOf(disposables: DisposableStore, output: h.Output): h.Commands {
  const own = disposables.add(new DisposableStore());
  return {
    register: (id, handler) =>
      own.add(
        vscode.commands.registerCommand(id, async (...values: unknown[]) => {
          try {
            const run = async (command: string, ...arguments_: readonly unknown[]): Promise<unknown> =>
              vscode.commands.executeCommand(command, ...arguments_);
            return await repairing(() => handler(...values.map(plainValue)), run);
          } catch (error) {
            const { message, hint, logPaths } = toErrorInfo(error);
            output.error(`${id}: ${error instanceof Error ? (error.stack ?? message) : message}`);
            const repair = error instanceof SidecarError ? error.repair : undefined;
            const text = escapeMarkup(hint ? `${message} ${hint}` : message);
            const log = logPaths?.[0];
            const buttons = [...(repair ? [repair.title] : []), ...(log === undefined ? [] : [t("Show Log")])];
            void vscode.window.showErrorMessage(text, ...buttons).then(async (answer) => {
              if (log !== undefined && answer === t("Show Log")) {
                await vscode.window.showTextDocument(vscode.Uri.file(log), { preview: true });
              }
              if (!repair || answer !== repair.title) return;
              const repaired = await vscode.commands.executeCommand(repair.command, ...(repair.arguments ?? []));
              if (repaired === true) await vscode.commands.executeCommand(id, ...values);
            });
            return undefined;
          }
        }),
      ),
    run: async (id, ...values) => vscode.commands.executeCommand(id, ...values),
    setContext: (key, value) => void vscode.commands.executeCommand("setContext", key, value),
    dispose: () => own.dispose(),
  };
}

/** Convert arguments of menus to plain data: a URI, the URIs of a selection, the ID of a bar, a comment. */
function plainValue(value: unknown): unknown {
  if (value instanceof vscode.Uri) return value.toString();
  if (typeof value === "object" && value !== null) {
    const plain = threadIds.get(value) ?? lineComment(value);
    if (plain !== undefined) return plain;
  }
  return Array.isArray(value) ? value.map(plainValue) : value;
}
