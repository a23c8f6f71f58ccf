/** The merge editor is saved by a command that saves whatever is active: nothing else may be. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { DisposableStore } from "../../src/base/events.ts";

class Uri {
  constructor(readonly text: string) {}
  static parse(text: string): Uri {
    return new Uri(text);
  }
  toString(): string {
    return this.text;
  }
}

interface Tab {
  input: object;
  isDirty: boolean;
}

const OUTPUT = "file:///w/a.py";
const mergeOf = (output: string): Tab => ({
  input: { base: new Uri("base:a"), input1: new Uri("yours:a"), input2: new Uri("theirs:a"), result: new Uri(output) },
  isDirty: true,
});

let tabs: Tab[] = [];
let active: Tab | undefined;
let saved: (Tab | undefined)[] = [];
/** What the editor does when it is asked to show a merge editor. */
let opens: (tab: Tab | undefined) => void = () => {};
const listeners = new Set<() => void>();
const changed = (): void => [...listeners].forEach((listener) => listener());
const on = (listener: () => void): object => {
  listeners.add(listener);
  return { dispose: () => void listeners.delete(listener) };
};

vi.mock("vscode", () => ({
  Uri,
  Disposable: {
    from: (...all: { dispose(): void }[]) => ({ dispose: () => all.forEach((one) => one.dispose()) }),
  },
  window: {
    tabGroups: {
      get all() {
        return [{ tabs }];
      },
      get activeTabGroup() {
        return { activeTab: active };
      },
      onDidChangeTabs: on,
      onDidChangeTabGroups: on,
    },
  },
  commands: {
    executeCommand: (name: string, ...[merge]: { output: Uri }[]): Promise<void> => {
      if (name === "_open.mergeEditor") {
        opens(tabs.find(({ input }) => "result" in input && String(input.result) === String(merge?.output)));
      } else if (name === "workbench.action.files.save") {
        saved.push(active);
        if (active) active.isDirty = false;
        setTimeout(changed);
      }
      return Promise.resolve();
    },
  },
  workspace: { registerTextDocumentContentProvider: () => ({ dispose: () => {} }) },
}));

const { reviewEditorsOf } = await import("../../src/host/vscode/reviewEditors.ts");

describe("saving a merge editor", () => {
  const review = reviewEditorsOf(new DisposableStore());

  beforeEach(() => {
    vi.useFakeTimers();
    tabs = [{ input: {}, isDirty: true }, mergeOf("file:///w/other.py"), mergeOf(OUTPUT)];
    active = tabs[0];
    saved = [];
    opens = (tab) => (active = tab);
    return () => vi.useRealTimers();
  });

  const save = async (): Promise<boolean> => {
    const saving = review.saveMerge(OUTPUT);
    await vi.runAllTimersAsync();
    return saving;
  };

  it("saves it once it is active, and nothing else", async () => {
    opens = (tab) =>
      setTimeout(() => {
        active = tab;
        changed();
      });
    expect(await save()).toBe(true);
    expect(saved).toEqual([tabs[2]]);
    expect(tabs.map(({ isDirty }) => isDirty)).toEqual([true, true, false]);
  });

  it.each([0, 1])("saves nothing while another tab is active (%i), and says so", async (index) => {
    opens = () => (active = tabs[index]);
    expect(await save()).toBe(false);
    expect(saved).toEqual([]);
    expect(listeners.size).toBe(0);
  });

  it("saves nothing that has no changes", async () => {
    for (const tab of tabs) tab.isDirty = false;
    expect(await save()).toBe(true);
    expect(saved).toEqual([]);
  });
});
