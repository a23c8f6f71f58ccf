/** When a panel is left: the watchers of tabs end with the extension. */

import { expect, it, vi } from "vitest";
import { DisposableStore } from "../../src/base/events.ts";

class TabInputWebview {
  constructor(readonly viewType: string) {}
}
const listeners = new Set<() => void>();
const watch = (listener: () => void): object => {
  listeners.add(listener);
  return { dispose: () => listeners.delete(listener) };
};
const tabGroups = {
  activeTabGroup: { activeTab: { input: new TabInputWebview("mainThreadWebview-understudy.compose") } as object },
  onDidChangeTabs: watch,
  onDidChangeTabGroups: watch,
};
vi.mock("vscode", () => ({
  TabInputWebview,
  Disposable: {
    from: (...items: { dispose: () => void }[]) => ({ dispose: () => items.forEach((item) => item.dispose()) }),
  },
  window: { tabGroups },
}));
const { windowsOf } = await import("../../src/host/vscode/windows.ts");

it("resolves when another tab is active, and watches no tab after the end", async () => {
  const disposables = new DisposableStore();
  const windows = windowsOf(disposables);
  const left = vi.fn();
  void windows.leftPanel("understudy.compose").then(left);
  for (const changed of listeners) changed();
  await Promise.resolve();
  expect(left).not.toHaveBeenCalled();
  tabGroups.activeTabGroup.activeTab = {};
  for (const changed of listeners) changed();
  await Promise.resolve();
  expect(left).toHaveBeenCalled();
  tabGroups.activeTabGroup.activeTab = { input: new TabInputWebview("understudy.compose") };
  void windows.leftPanel("understudy.compose");
  disposables.dispose();
  expect(listeners.size).toBe(0);
});
