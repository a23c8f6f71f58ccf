/** Which file commands apply to: the editor knows the tab of a file before its text. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { DisposableStore } from "../../src/base/events.ts";

class TabInputText {
  constructor(readonly uri: object) {}
}
class TabInputTextDiff {
  constructor(
    readonly original: object,
    readonly modified: object,
  ) {}
}
const tabsChanged: (() => void)[] = [];

const on = () => ({ dispose: () => {} });
const uri = (text: string): object => ({ scheme: text.split(":")[0], toString: () => text });
const position = { line: 3, character: 0 };
const selection = { start: position, end: position, isEmpty: true };
interface Shown {
  activeTextEditor: object | undefined;
  tabGroups: { activeTabGroup: { activeTab?: object }; onDidChangeTabs: (changed: () => void) => object };
}
const shown: Shown = {
  activeTextEditor: undefined,
  tabGroups: {
    activeTabGroup: {},
    onDidChangeTabs: (changed) => ({ dispose: () => {}, at: tabsChanged.push(changed) }),
  },
};
vi.mock("vscode", () => ({
  TabInputText,
  TabInputTextDiff,
  window: Object.assign(shown, {
    onDidChangeTextEditorVisibleRanges: on,
    onDidChangeTextEditorSelection: on,
    onDidChangeActiveTextEditor: on,
  }),
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

  it("is that of the tab for a file without text, and is reported when the tab changes", () => {
    const [base, result] = [uri("understudy-base://d/a.png"), uri("understudy-result://d/a.png")];
    const seen: (string | undefined)[] = [];
    documents.onDidChangeActive((active) => seen.push(active?.uri));
    for (const input of [
      new TabInputTextDiff(base, result),
      new TabInputTextDiff(base, uri("understudy-empty:/a.png")),
    ]) {
      shown.tabGroups.activeTabGroup = { activeTab: { input } };
      tabsChanged.forEach((changed) => changed());
    }
    expect(seen).toEqual(["understudy-result://d/a.png", "understudy-base://d/a.png"]);
    expect(documents.active?.uri).toBe("understudy-base://d/a.png");
  });

  it("is not the document that a multi-file diff has in place of a binary file", () => {
    shown.activeTextEditor = { document: { uri: uri("inmemory:/synthetic/1") }, selection };
    expect(documents.active).toBeUndefined();
  });

  it("is none in a tab without a file", () => {
    shown.tabGroups.activeTabGroup = { activeTab: { input: { viewType: "page" } } };
    expect(documents.active).toBeUndefined();
    shown.tabGroups.activeTabGroup = {};
    expect(documents.active).toBeUndefined();
  });
});
