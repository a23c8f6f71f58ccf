import { describe, expect, it, vi } from "vitest";
import { createApp } from "../../src/app.ts";
import { chatModels, textOf } from "../../src/assistants/chatModels.ts";
import { DisposableStore, Emitter } from "../../src/base/events.ts";
import type { Change } from "../../src/state/store.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, inProcess, result } from "../support/golden.ts";

const LISTED = result("understudy/delegators/list", "delegators-list.valid");
const ANSWER = result("understudy/text/run", "text-run.valid");

describe("the models of the chat", () => {
  it("are the delegators that ask a model server; those known before are offered while no engine runs", async () => {
    const [entry] = LISTED.delegators;
    const state = { ready: true, problems: [], running: 0, queued: 0 };
    const asks = { ...entry!, delegator: { name: "small", modelServer: "local", model: "m-7b" }, host: "127.0.0.1:1", state };
    const agent = { ...entry!, delegator: { name: "agent", tool: "claude" }, state };
    const broken = { ...asks, delegator: { name: "broken", modelServer: "local" }, state: { ...state, ready: false } };
    const peer = new GoldenSidecar()
      .answer("understudy/delegators/list", { ...LISTED, delegators: [asks, agent, broken] })
      .answer("understudy/modelServers/list", { modelServers: [], problems: [] })
      .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
      .answer("understudy/delegations/list", { delegations: [] })
      .answer("understudy/delegations/subscribe", {})
      .answer("understudy/text/run", ANSWER)
      .answer("understudy/workspace/trust", { workspace: "/w", trusted: true, effects: [], changed: [], digest: "1" });
    const host = new FakeHost();
    host.settings.set("path", process.execPath);
    const disposables = new DisposableStore();
    const app = createApp({ host, connect: inProcess(peer) }, disposables);
    const source = host.chatModels.get("understudy")!;
    expect(source.models()).toEqual([]);
    let changed = 0;
    source.onDidChange(() => void (changed += 1));
    await app.sidecar.start();
    await vi.waitFor(() => expect(changed).toBe(1));
    expect(source.models()).toMatchObject([{ id: "small", name: "small", detail: "m-7b · 127.0.0.1:1" }]);
    expect(host.memory.get("chat.models", [])).toEqual(source.models());
    const pieces: string[] = [];
    await source.answer("small", [{ role: "user", text: "Why?" }], (text) => void pieces.push(text), new AbortController().signal);
    expect(pieces.join("")).toBe(ANSWER.text);
    expect(peer.params("understudy/text/run")).toMatchObject([{ recipe: "ask", task: "Why?", delegator: "small" }]);
    expect(source.tokens("x".repeat(401))).toBe(101);
    disposables.dispose();
  }); // prettier-ignore

  it("are not followed after the end", () => {
    const host = new FakeHost();
    const changed = new Emitter<Change>();
    const delegators = LISTED.delegators.map((one) => ({
      ...one,
      delegator: { name: "small", modelServer: "local" },
      state: { ...one.state, ready: true },
    }));
    const source = chatModels({ host, store: { loaded: true, delegators, onDidChange: changed.subscribe } } as never);
    source.dispose();
    changed.fire({ delegators: true } as Change);
    expect(host.memory.get("chat.models", [])).toEqual([]);
  });

  it("get the last message as the task, and what was said before", () => {
    const user = (text: string) => ({ role: "user" as const, text });
    expect(textOf([user("Hello")])).toEqual({ task: "Hello" });
    expect(textOf([user("Be brief."), user("Hi"), { role: "assistant", text: "Yes?" }, user("Why?")])).toEqual({
      task: "Why?",
      input: "User:\nBe brief.\n\nUser:\nHi\n\nAssistant:\nYes?",
    });
  });

  it("are what the chat lacks if it has none: a sentence and buttons say so", async () => {
    const host = new FakeHost();
    const disposables = new DisposableStore();
    createApp({ host, connect: inProcess(new GoldenSidecar()) }, disposables);
    host.buttons.push("Manage Language Models…");
    await host.commands.run("understudy.chat");
    expect(host.messages.at(-1)?.text).toContain("needs a language model");
    expect(host.ran.at(-1)?.id).toBe("workbench.action.chat.manage");
    host.chatModels.set("other", { ...host.chatModels.get("understudy")!, models: () => [{}] as never });
    await host.commands.run("understudy.chat");
    const asked = { query: "@understudy ", isPartialQuery: true };
    expect(host.ran.at(-1)).toEqual({ id: "workbench.action.chat.open", values: [asked] });
    host.chatModels.delete("other");
    host.chatModels.set("understudy", { ...host.chatModels.get("understudy")!, models: () => [{}] as never });
    await host.commands.run("understudy.chat");
    const own = { ...asked, mode: "ask", modelSelector: { vendor: "understudy" } };
    expect(host.ran.at(-1)?.values).toEqual([own]);
    disposables.dispose();
  });
});
