import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { type App } from "../../src/appContext.ts";
import { DisposableStore } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import type { Recipe } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, result } from "../support/golden.ts";

const FILE = "file:///home/ada/greeting/greeting/wrapping.py";
const RANGE = { start: { line: 2, character: 0 }, end: { line: 4, character: 0 } };
const PREVIEW = result("understudy/text/preview", "text-preview.valid");
const ANSWER = result("understudy/text/run", "text-run.valid");
const RECIPES = result("understudy/recipes/list", "recipes-list.valid");
const SUMMARIZE: Recipe = {
  name: "summarize",
  title: "Summarize",
  returns: "text",
  appliesTo: { on: ["file", "selection"] },
  scope: "builtin",
};

async function app(): Promise<{ host: FakeHost; peer: GoldenSidecar; made: App; disposables: DisposableStore }> {
  const peer = new GoldenSidecar()
    .answer("understudy/delegators/list", result("understudy/delegators/list", "delegators-list.valid"))
    .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
    .answer("understudy/recipes/list", { recipes: [...RECIPES.recipes, SUMMARIZE], problems: [] })
    .answer("understudy/delegations/list", { delegations: [] })
    .answer("understudy/delegations/subscribe", {})
    .answer("understudy/delegations/preview", result("understudy/delegations/preview", "delegations-preview.valid"))
    .answer("understudy/delegations/start", result("understudy/delegations/start", "delegations-start.valid"))
    .answer("understudy/delegations/get", result("understudy/delegations/get", "delegations-get.valid"))
    .answer("understudy/text/preview", PREVIEW)
    .answer("understudy/text/run", ANSWER)
    .answer("understudy/workspace/trust", {
      workspace: "/home/ada/greeting",
      trusted: true,
      effects: [],
      changed: [],
      digest: "1",
    });
  const host = new FakeHost();
  host.settings.set("path", process.execPath);
  host.active = { uri: FILE, selection: RANGE, selectionEmpty: false };
  const disposables = new DisposableStore();
  const made = createApp({ host, connect: inProcess(peer) }, disposables);
  await made.sidecar.start();
  await vi.waitFor(() => expect(host.contexts.get("understudy.loaded")).toBe(true));
  return { host, peer, made, disposables };
}

const shownAnswer = (host: FakeHost): string => {
  const uri = host.opened.findLast(({ uri: one }) => one.startsWith("understudy-answer:"))?.uri ?? "";
  return host.provided.get("understudy-answer")?.text(uri) as string;
};

describe("text requests", () => {
  it("asks about the selection without a delegation, and shows the answer as it arrives", async () => {
    const { host, peer, disposables } = await app();
    const pieces: string[] = [];
    peer.answer("understudy/text/run", (params) => {
      peer.notify("understudy/text", { stream: params.stream ?? "", text: "It wraps " });
      peer.notify("understudy/text", { stream: "another", text: "not this" });
      pieces.push(shownAnswer(host));
      return ANSWER;
    });
    host.answers.push({ enter: "What is it for?" }, { pick: "go" });
    await host.commands.run("understudy.ask", FILE);
    expect(host.shown.at(-1)?.items[0]?.label).toBe("Ask big-coder");
    expect(pieces).toEqual(["It wraps "]);
    expect(shownAnswer(host)).toBe(
      "It wraps long lines.\n\n---\n\nbig-coder (large-1) · 819 tokens used · $0.0026 · 0:01\n\n" +
        "The model server is busy; trying again in 1 s.\n",
    );
    const wanted = { recipe: "ask", files: [FILE], range: RANGE, task: "What is it for?" };
    expect(peer.params("understudy/text/run")).toMatchObject([wanted]);
    expect(peer.params("understudy/text/preview")).toContainEqual(wanted);
    expect(peer.params("understudy/delegations/start")).toEqual([]);
    disposables.dispose();
  });

  it("summarizes a file at once, and a code action runs the same way", async () => {
    const { host, peer, made, disposables } = await app();
    await host.commands.run("understudy.summarize", FILE);
    expect(host.shown).toEqual([]);
    await made.interceptors.get("understudy/text/run")?.([{ recipe: "summarize", files: [FILE] }]);
    expect(peer.params("understudy/text/run")).toMatchObject([
      { recipe: "summarize", files: [FILE] },
      { recipe: "summarize", files: [FILE] },
    ]);
    expect(host.progresses.map(({ over }) => over)).toEqual([true, true]);
    disposables.dispose();
  });

  it("keeps what has arrived when the user cancels, and shows no error", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/text/run", (params) => {
      peer.notify("understudy/text", { stream: params.stream ?? "", text: "It wraps " });
      host.progresses.at(-1)?.cancel();
      throw new SidecarError({ kind: "cancelled", message: "The request was cancelled." });
    });
    await host.commands.run("understudy.summarize", FILE);
    expect(shownAnswer(host)).toBe("It wraps\n\n---\n\nCancelled.\n");
    expect(host.messages.filter(({ level }) => level === "error")).toEqual([]);
    disposables.dispose();
  });

  it("delegates to an agent CLI, and with what only a delegation has", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/text/preview", () => {
      throw new SidecarError({ kind: "config_invalid", message: "The delegator 'claude' runs an agent CLI." });
    });
    await host.commands.run("understudy.summarize", FILE);
    expect(peer.params("understudy/delegations/start")).toMatchObject([{ recipe: "summarize", files: [FILE] }]);
    await host.commands.run("understudy.delegate.tests", FILE);
    expect(peer.params("understudy/delegations/start")).toHaveLength(2);
    expect(peer.params("understudy/text/preview")).toHaveLength(1);
    expect(peer.params("understudy/text/run")).toEqual([]);
    disposables.dispose();
  });

  it("asks for a delegator if there is no default", async () => {
    const { host, peer, disposables } = await app();
    peer.answer("understudy/text/preview", (params) => {
      if (params.delegator) return PREVIEW;
      throw new SidecarError({
        kind: "unknown_delegator",
        message: "There is no default delegator.",
        names: ["ghostwriter", "local-coder"],
      });
    });
    host.answers.push({ pick: "who:local-coder" });
    await host.commands.run("understudy.summarize", FILE);
    expect(peer.params("understudy/text/run")).toMatchObject([{ recipe: "summarize", delegator: "local-coder" }]);
    disposables.dispose();
  });
});
