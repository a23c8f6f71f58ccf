/** Which file commands apply to: the editor knows the tab of a file before its text. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { DisposableStore } from "../../src/base/events.ts";

class TabInputText {
  constructor(readonly uri: object) {}
}

const on = () => ({ dispose: () => {} });
const uri = (text: string): object => ({ toString: () => text });
const position = { line: 3, character: 0 };
const selection = { start: position, end: position, isEmpty: true };
const shown: { activeTextEditor: object | undefined; tabGroups: { activeTabGroup: { activeTab?: object } } } = {
  activeTextEditor: undefined,
  tabGroups: { activeTabGroup: {} },
};
vi.mock("vscode", () => ({
  TabInputText,
  window: Object.assign(shown, { onDidChangeTextEditorVisibleRanges: on, onDidChangeActiveTextEditor: on }),
  languages: { createDiagnosticCollection: on },
  workspace: { onDidCloseTextDocument: on, onDidSaveTextDocument: on, onDidChangeTextDocument: on },
}));

const { documentsOf } = await import("../../src/host/vscode/documents.ts");

describe("the active file", () => {
  const documents = documentsOf(new DisposableStore());

  beforeEach(() => {
    shown.activeTextEditor = undefined;
    shown.tabGroups.activeTabGroup = {};
  });

  it("is that of the editor, with its selection", () => {
    shown.activeTextEditor = { document: { uri: uri("file:///a.py") }, selection };
    shown.tabGroups.activeTabGroup = { activeTab: { input: new TabInputText(uri("file:///b.py")) } };
    expect(documents.active).toMatchObject({ uri: "file:///a.py", selection: { start: position } });
  });

  it("is that of the tab while its text is loaded", () => {
    shown.tabGroups.activeTabGroup = { activeTab: { input: new TabInputText(uri("file:///b.py")) } };
    expect(documents.active).toMatchObject({ uri: "file:///b.py", selectionEmpty: true });
  });

  it("is none in a tab without a file", () => {
    shown.tabGroups.activeTabGroup = { activeTab: { input: { viewType: "page" } } };
    expect(documents.active).toBeUndefined();
    shown.tabGroups.activeTabGroup = {};
    expect(documents.active).toBeUndefined();
  });
});
