import { describe, expect, it } from "vitest";
import { Emitter, type Disposable } from "../../src/base/events.ts";
import type { Change } from "../../src/state/store.ts";
import { TRANSCRIPT_PANEL, TranscriptPanels } from "../../src/transcript/transcriptPanels.ts";
import type { DelegatorEntry, Event } from "../../src/protocol.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { golden, GoldenSidecar, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const LIFE = golden("notification.event").params as unknown as { id: string; events: Event[] };
const { id } = LIFE;
const DONE = { ...result("understudy/delegations/get", "delegations-get.valid"), id };
const SAID = result("understudy/delegations/say", "delegations-say.valid");
const [GHOSTWRITER] = result("understudy/delegators/list", "delegators-list.valid").delegators;
const LOGS = result("understudy/delegations/logs", "delegations-logs.valid");

function panels() {
  const host = new FakeHost();
  const changed = new Emitter<Change>();
  const followers = new Map<number, (events: readonly Event[]) => void>();
  let count = 0;
  const store = {
    loaded: true,
    delegation: () => DONE,
    read: () => Promise.resolve(DONE),
    delegator: (): DelegatorEntry | undefined => undefined,
    onDidChange: changed.subscribe,
    follow: (_: string, hear: (events: readonly Event[]) => void, after = 0): Promise<Disposable> => {
      const number = (count += 1);
      followers.set(number, hear);
      hear(LIFE.events.filter(({ seq }) => seq > after));
      return Promise.resolve({ dispose: () => void followers.delete(number) });
    },
  };
  const requester = new GoldenSidecar().answer("understudy/delegations/logs", LOGS);
  const made = new TranscriptPanels({
    host,
    requester,
    store,
    exists: (file) => file.startsWith("/home/ada"),
  });
  let sent = 0;
  const ask = async (method: string, params: object = {}, panel = host.panels[0]!): Promise<unknown> => {
    const number = (sent += 1);
    panel.send({ id: number, method, params });
    await settled();
    return panel.posted.find((one) => (one as { id?: number }).id === number);
  };
  const nothing = { delegators: false, modelServers: false, recipes: false, trust: false, delegationList: true };
  const change = (): void => changed.fire({ delegations: new Set(), ...nothing });
  return { host, store, made, ask, change, followers, requester };
}

describe("transcript panels", () => {
  it("are one per delegation, contain everything, and can load nothing", () => {
    const { host, made } = panels();
    made.show(DONE);
    made.show(DONE);
    const [panel] = host.panels;
    expect(host.panels).toHaveLength(1);
    expect(panel).toMatchObject({ type: TRANSCRIPT_PANEL, title: DONE.title, revealed: 1 });
    const policy = /Content-Security-Policy" content="([^"]+)"/.exec(panel!.html)?.[1] ?? "";
    const nonce = /script-src 'nonce-([\w-]{20,})';/.exec(policy)?.[1] ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(panel!.html).toContain(`<script nonce="${nonce}">/* transcriptPage.js */</script>`);
    expect(panel!.html).toContain(`<style nonce="${nonce}">/* transcriptPage.css */</style>`);
    expect(panel!.html).not.toMatch(/ on\w+=|src=|href=/);
    panel!.close();
    made.show(DONE);
    expect(host.panels).toHaveLength(2);
    expect(host.panels[1]?.html).not.toContain(nonce);
  });

  it("send the messages of the contract, and follow only while their page is there", async () => {
    const { host, made, ask, followers, store } = panels();
    made.show(DONE);
    const answer = { delegation: id, instructable: true, translations: {} };
    expect(await ask("page/start")).toMatchObject({ result: answer });
    store.delegator = () => ({ ...GHOSTWRITER!, followsInstructions: false });
    expect(await ask("page/start")).toMatchObject({ result: { ...answer, instructable: false } });
    expect(await ask("understudy/delegations/get", { id })).toMatchObject({ result: { id } });
    expect(await ask("understudy/delegations/subscribe", { id, after: { [id]: 5 } })).toMatchObject({ result: {} });
    const events = (): Event[] =>
      host.panels[0]!.posted.flatMap((one) => {
        const { method, params } = one as { method?: string; params?: { events: Event[] } };
        return method === "understudy/event" ? (params?.events ?? []) : [];
      });
    expect(events()[0]?.seq).toBe(6);
    expect(await ask("understudy/delegations/logs", { id })).toMatchObject({ result: LOGS });
    // Shown again: the page starts again, and an earlier subscription must not reach it.
    const [early] = followers.values();
    await ask("page/start");
    const before = events().length;
    early?.(LIFE.events);
    expect(events()).toHaveLength(before);
    await ask("understudy/delegations/subscribe", { id, after: {} });
    expect(followers.size).toBe(1);
    host.panels[0]!.close();
    expect(followers.size).toBe(0);
  });

  it("offer no reply before it is known whether the agent follows instructions", async () => {
    const { host, made, store, ask, change } = panels();
    store.loaded = false;
    made.show(DONE);
    change();
    expect(await ask("page/start")).toMatchObject({ result: { instructable: false } });
    const told = (): unknown[] =>
      host.panels[0]!.posted.filter((one) => (one as { method?: string }).method === "editor/instructable");
    store.delegator = () => ({ ...GHOSTWRITER!, followsInstructions: false });
    store.loaded = true;
    change();
    expect(told()).toEqual([]);
    store.delegator = () => ({ ...GHOSTWRITER!, followsInstructions: true });
    change();
    change();
    expect(told()).toEqual([{ method: "editor/instructable", params: { instructable: true } }]);
  });

  it("run the commands of a row, on their own delegation only", async () => {
    const { host, made, ask, requester } = panels();
    made.show(DONE);
    await ask("understudy/delegations/answer", { id: "20200101-000000-zzzzz", requestId: "1", option: "r" });
    await ask("understudy/delegations/cancel", { id: "20200101-000000-zzzzz" });
    await ask("understudy/delegations/retry", { id });
    requester.answer("understudy/delegations/say", SAID);
    const said = await ask("understudy/delegations/say", { id: "20200101-000000-zzzzz", text: "More." });
    expect(said).toMatchObject({ result: SAID });
    expect(requester.params("understudy/delegations/say")).toEqual([{ id, text: "More." }]);
    host.panels[0]!.send({ method: "editor/run", params: { action: "review" } });
    host.panels[0]!.send({ method: "editor/run", params: { action: "constructor" } });
    await settled();
    expect(host.ran).toEqual([
      { id: "understudy.delegations.answer", values: [id, "1", "r", false] },
      { id: "understudy.delegations.cancel", values: [id] },
      { id: "understudy.delegations.retry", values: [id] },
      { id: "understudy.review.open", values: [id] },
    ]);
    for (const method of ["understudy/delegations/discard", "understudy/workspace/trust", "__proto__"])
      expect(await ask(method, { id })).toMatchObject({
        error: { message: expect.stringContaining("may not") as string },
      });
  });

  it("open files of the user and of the result, and no others", async () => {
    const { host, made } = panels();
    made.show(DONE);
    for (const path of ["tests/test_wrapping_ghost.py", "../../../etc/passwd", "/etc/passwd"])
      host.panels[0]!.send({ method: "editor/openFile", params: { path } });
    await settled();
    expect(host.opened.map(({ uri }) => uri)).toEqual(["file:///home/ada/greeting/tests/test_wrapping_ghost.py"]);
    expect(host.messages.map(({ text }) => text)).toEqual([
      "../../../etc/passwd does not exist.",
      "/etc/passwd does not exist.",
    ]);
  });

  it("continue in the next window, as soon as there is a sidecar", async () => {
    const { host, store, ask, change } = panels();
    store.loaded = false;
    host.restorers.get(TRANSCRIPT_PANEL)?.({ id, at: 3 });
    const [panel] = host.panels;
    expect(await ask("page/start")).toMatchObject({ result: { delegation: id } });
    expect(await ask("understudy/delegations/get", { id })).toMatchObject({
      error: { message: "Waiting for Understudy…" },
    });
    const changes = (): number =>
      panel!.posted.filter((one) => (one as { method?: string }).method === "understudy/changed").length;
    change();
    expect(changes()).toBe(0);
    store.loaded = true;
    change();
    change();
    expect(changes()).toBe(1);
    expect(await ask("understudy/delegations/get", { id })).toMatchObject({ result: { id } });
    for (const state of [undefined, null, 3, { id: "../../x" }, { id: 7 }])
      host.restorers.get(TRANSCRIPT_PANEL)?.(state);
    expect(host.panels.slice(1).map(({ html }) => html)).toEqual(["", "", "", "", ""]);
  });
});
