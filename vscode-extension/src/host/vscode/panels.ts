/** Pages of our own in editor tabs and views. */

import * as vscode from "vscode";
import { Emitter, type Subscribe } from "../../base/events.ts";
import type * as h from "../host.ts";

/** Scripts, and nothing else: no file can be loaded, and no link can run a command. */
const PAGE: vscode.WebviewOptions = { enableScripts: true, enableCommandUris: false, localResourceRoots: [] };

export function openPanel(type: string, title: string, html: string): h.Panel {
  const options = { ...PAGE, enableFindWidget: true };
  return start(vscode.window.createWebviewPanel(type, title, vscode.ViewColumn.Active, options), html);
}

export function restorePanels(type: string, restore: Parameters<h.Windows["restorePanels"]>[1]): vscode.Disposable {
  return vscode.window.registerWebviewPanelSerializer(type, {
    deserializeWebviewPanel: (panel, state: unknown) => {
      restore(state, (html) => start(panel, html));
      return Promise.resolve();
    },
  });
}

/** Whether the active tab is a panel of a type: VS Code puts its own prefix before it. */
function isActive(type: string): boolean {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputWebview && input.viewType.endsWith(type);
}

/** `tabsChanged` fires whenever another tab may be active. */
export function leftPanel(type: string, tabsChanged: Subscribe<void>): Promise<void> {
  return new Promise((resolve) => {
    if (!isActive(type)) {
      resolve();
      return;
    }
    const watching = tabsChanged(() => {
      if (isActive(type)) return;
      watching.dispose();
      resolve();
    });
  });
}

export function pageView(viewId: string, open: Parameters<h.Windows["pageView"]>[1]): vscode.Disposable {
  return vscode.window.registerWebviewViewProvider(viewId, {
    resolveWebviewView: (view) => open((html) => start(view, html)),
  });
}

function start(panel: vscode.WebviewPanel | vscode.WebviewView, html: string): h.Panel {
  const messages = new Emitter<unknown>();
  const closed = new Emitter<void>();
  panel.webview.options = PAGE;
  panel.webview.onDidReceiveMessage((message: unknown) => messages.fire(message));
  panel.onDidDispose(() => {
    closed.fire();
    messages.dispose();
    closed.dispose();
  });
  panel.webview.html = html;
  return {
    post: (message) => void panel.webview.postMessage(message),
    onMessage: messages.subscribe,
    onDidClose: closed.subscribe,
    reveal: () => ("reveal" in panel ? panel.reveal() : panel.show()),
    setTitle: (title) => (panel.title = title),
  };
}
