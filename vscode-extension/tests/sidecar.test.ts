import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { locate, type Look } from "../src/client/locate.ts";
import { environment } from "../src/client/process.ts";
import { BACKOFF_MS, Sidecar, type SidecarState } from "../src/client/sidecar.ts";
import { EndedError, errorInfo, type Connect } from "../src/client/wire.ts";
import { pipe } from "./support/pipe.ts";

const PEER = path.join(import.meta.dirname, "support/peer.mjs");
const REAL = path.join(import.meta.dirname, "../../.venv/bin/understudy");

let running: Sidecar[] = [];
afterEach(async () => {
  await Promise.all(running.map((sidecar) => sidecar.stop()));
  running = [];
});

function sidecar(peer: string, connect: Connect = pipe): { sidecar: Sidecar; states: SidecarState[] } {
  const states: SidecarState[] = [];
  const made = new Sidecar({
    locate: () => Promise.resolve({ found: { command: PEER, origin: "setting" as const }, looked: [PEER] }),
    launch: () => ({
      command: process.execPath,
      args: [PEER],
      cwd: os.tmpdir(),
      env: { ...environment(process.env), PEER: peer },
      trusted: true,
    }),
    connect,
    log: () => {},
  });
  made.onDidChange((state) => states.push(state));
  running.push(made);
  return { sidecar: made, states };
}

async function until(what: () => boolean): Promise<void> {
  for (const end = Date.now() + 15_000; !what();) {
    if (Date.now() > end) throw new Error(`waited too long for ${what.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("sidecar", () => {
  it("starts with the first question, and always sends parameters", async () => {
    const { sidecar: peer, states } = sidecar("");
    expect(await peer.ask("understudy/version", {})).toEqual({ version: "0.1.0", protocolVersion: 1 });
    expect(states.map(({ kind }) => kind)).toEqual(["starting", "running"]);
  });

  it("starts again after a crash, and says why it crashed", async () => {
    const { sidecar: peer, states } = sidecar("");
    await peer.start();
    const error = await peer.ask("understudy/doctor", {}).catch((reason: unknown) => errorInfo(reason));
    expect(error).toMatchObject({ kind: "connection_failed" });
    await until(() => states.filter(({ kind }) => kind === "running").length === 2);
    const crash = states.find((state) => state.kind === "crashed");
    expect(crash).toMatchObject({ cause: "the disk is on fire (exit code 4)", againInMs: 0 });
    expect(await peer.ask("understudy/version", {})).toMatchObject({ protocolVersion: 1 });
  });

  it("gives up after a bounded number of starts, with longer and longer pauses", async () => {
    const ending = { code: 3, signal: null, lines: ["ModuleNotFoundError: No module named 'understudy'"] };
    const { sidecar: peer, states } = sidecar("", () => Promise.reject(new EndedError(ending)));
    const { vi } = await import("vitest");
    vi.useFakeTimers();
    await peer.start();
    await vi.advanceTimersByTimeAsync(BACKOFF_MS.reduce((sum, pause) => sum + pause, 0) + 1_000);
    vi.useRealTimers();
    const pauses = states.flatMap((state) => (state.kind === "crashed" ? [state.againInMs] : []));
    expect(pauses).toEqual(BACKOFF_MS);
    expect(peer.state).toMatchObject({
      kind: "failed",
      cause: "ModuleNotFoundError: No module named 'understudy' (exit code 3)",
    });
  });

  it("says what a program said that never greeted", async () => {
    const { sidecar: peer, states } = sidecar("broken");
    await peer.start();
    expect(states.find((state) => state.kind === "crashed")?.cause).toBe(
      "ModuleNotFoundError: No module named 'understudy' (exit code 3)",
    );
  });

  it.each([
    ["old", "sidecar"],
    ["foreign", "sidecar"],
    ["new", "extension"],
  ])("says which side to upgrade when the peer is %s", async (peer, upgrade) => {
    const { sidecar: made } = sidecar(peer);
    await made.start();
    expect(made.state).toMatchObject({ kind: "mismatch", upgrade });
    await expect(made.ask("understudy/version", {})).rejects.toMatchObject({ kind: "connection_failed" });
  });

  it("refuses by itself what the sidecar does not offer", async () => {
    const { sidecar: peer } = sidecar("");
    await expect(peer.ask("understudy/worktrees/list", {})).rejects.toMatchObject({ kind: "unknown_method" });
  });

  it.runIf(existsSync(REAL))("works with the real one", async () => {
    const home = mkdtempSync(path.join(os.tmpdir(), "understudy-home-"));
    const env = {
      ...environment(process.env),
      HOME: home,
      XDG_CONFIG_HOME: "",
      XDG_STATE_HOME: "",
      XDG_CACHE_HOME: "",
    };
    const made = new Sidecar({
      locate: () => Promise.resolve({ found: { command: REAL, origin: "setting" as const }, looked: [REAL] }),
      launch: () => ({ command: REAL, args: ["serve"], cwd: home, env, trusted: true }),
      connect: pipe,
      log: () => {},
    });
    running.push(made);
    await made.start();
    expect(made.state).toMatchObject({ kind: "running", greeting: { protocolVersion: 1 } });
    const { delegators } = await made.ask("understudy/delegators/list", {});
    expect(delegators.map(({ scope }) => scope)).toContain("builtin");
    expect(await made.ask("understudy/delegations/list", { limit: 10 })).toEqual({ delegations: [] });
    await expect(made.ask("understudy/delegations/get", { id: "20200101-000000-zzzzz" })).rejects.toMatchObject({
      kind: "unknown_delegation",
    });
    await made.stop();
    rmSync(home, { recursive: true, force: true });
  });
});

describe("locate", () => {
  const top = mkdtempSync(path.join(os.tmpdir(), "understudy-locate-"));
  const program = (...parts: string[]): string => {
    const file = path.join(top, ...parts, "understudy");
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
    return file;
  };
  const onPath = program("bin");
  const inVenv = program("work", ".venv", "bin");
  const stored = program("storage");
  const look = (change: Partial<Look>): Look => ({
    setting: "",
    homePath: top,
    variables: { PATH: path.join(top, "nothing") },
    platform: "linux",
    trusted: true,
    folders: [path.join(top, "work")],
    installed: stored,
    ...change,
  });

  it("takes the setting, then PATH, then the venv of a trusted workspace, then what was installed", async () => {
    const variables = { PATH: `${path.join(top, "nothing")}:${path.join(top, "bin")}` };
    expect((await locate(look({ setting: "~/bin/understudy", variables }))).found).toEqual({
      command: onPath,
      origin: "setting",
    });
    expect((await locate(look({ variables }))).found).toEqual({ command: onPath, origin: "path" });
    expect((await locate(look({}))).found).toEqual({ command: inVenv, origin: "workspace" });
    expect((await locate(look({ folders: [] }))).found).toEqual({ command: stored, origin: "storage" });
    expect((await locate(look({ folders: [], installed: undefined }))).found).toBeUndefined();
  });

  it("runs nothing of an untrusted workspace, and nothing from a relative entry of PATH", async () => {
    expect((await locate(look({ trusted: false, installed: undefined }))).found).toBeUndefined();
    const variables = { PATH: `.venv/bin:${path.relative(process.cwd(), path.dirname(inVenv))}` };
    expect((await locate(look({ trusted: false, installed: undefined, variables }))).found).toBeUndefined();
  });

  it("takes nothing else when the setting is wrong, and says so", async () => {
    const located = await locate(look({ setting: path.join(top, "gone") }));
    expect(located).toEqual({ looked: [path.join(top, "gone")] });
    expect((await locate(look({ setting: "understudy" }))).looked[0]).toContain("must be an absolute path");
  });
});
