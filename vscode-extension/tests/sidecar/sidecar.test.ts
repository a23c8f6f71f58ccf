import { PROTOCOL_VERSION } from "../../src/protocol.ts";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { locate, type LocateOptions } from "../../src/sidecar/locator.ts";
import { sidecarEnvironment, spawnSidecar } from "../../src/sidecar/childProcess.ts";
import { ANSWER_MS, BACKOFF_MS, Sidecar, type SidecarState } from "../../src/sidecar/sidecar.ts";
import { exitCause, ProcessExitError, toErrorInfo, type Connect } from "../../src/sidecar/connection.ts";
import { pipe } from "../support/pipeConnection.ts";

const PEER = path.join(import.meta.dirname, "../support/scriptedServer.mjs");
const REAL = path.join(import.meta.dirname, "../../../.venv/bin/understudy");

let running: Sidecar[] = [];
afterEach(async () => {
  await Promise.all(running.map((sidecar) => sidecar.stop()));
  running = [];
});

function sidecar(
  peer: string,
  connect: Connect = pipe,
): { sidecar: Sidecar; states: SidecarState[]; logged: string[] } {
  const states: SidecarState[] = [];
  const logged: string[] = [];
  const made = new Sidecar({
    locate: () => Promise.resolve({ found: { command: PEER, origin: "setting" as const }, searched: [PEER] }),
    launch: () => ({
      command: process.execPath,
      args: [PEER],
      cwd: os.tmpdir(),
      env: { ...sidecarEnvironment(process.env), PEER: peer },
      trusted: true,
    }),
    connect,
    log: (line) => logged.push(line),
  });
  made.onDidChange((state) => states.push(state));
  running.push(made);
  return { sidecar: made, states, logged };
}

async function until(what: () => boolean): Promise<void> {
  for (const end = Date.now() + 15_000; !what();) {
    if (Date.now() > end) throw new Error(`waited too long for ${what.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("Sidecar", () => {
  it("starts with the first request, and always sends parameters", async () => {
    const { sidecar: peer, states } = sidecar("");
    expect(await peer.request("understudy/version", {})).toEqual({
      version: "0.1.0",
      protocolVersion: PROTOCOL_VERSION,
    });
    expect(states.map(({ kind }) => kind)).toEqual(["starting", "running"]);
  });

  it("restarts after a crash, and reports the cause", async () => {
    const { sidecar: peer, states } = sidecar("");
    await peer.start();
    const error = await peer.request("understudy/doctor", {}).catch((reason: unknown) => toErrorInfo(reason));
    expect(error).toMatchObject({ kind: "connection_failed" });
    await until(() => states.filter(({ kind }) => kind === "running").length === 2);
    const crash = states.find((state) => state.kind === "crashed");
    expect(crash).toMatchObject({ cause: "the disk is on fire (exit code 4)", againInMs: 0 });
    expect(await peer.request("understudy/version", {})).toMatchObject({ protocolVersion: PROTOCOL_VERSION });
  });

  it("gives up after several starts with increasing pauses", async () => {
    const ending = { code: 3, signal: null, lines: ["ModuleNotFoundError: No module named 'understudy'"] };
    const { sidecar: peer, states, logged } = sidecar("", () => Promise.reject(new ProcessExitError(ending)));
    vi.useFakeTimers();
    await peer.start();
    await vi.advanceTimersByTimeAsync(BACKOFF_MS.reduce((sum, pause) => sum + pause, 0) + 1_000);
    vi.useRealTimers();
    const again = Array.from({ length: BACKOFF_MS.length + 1 }, () => "the sidecar ended: exit code 3");
    expect(logged).toEqual([`sidecar: ${ending.lines[0]}`, ...again]);
    const pauses = states.flatMap((state) => (state.kind === "crashed" ? [state.againInMs] : []));
    expect(pauses).toEqual(BACKOFF_MS);
    expect(peer.state).toMatchObject({
      kind: "failed",
      cause: "ModuleNotFoundError: No module named 'understudy' (exit code 3)",
    });
  });

  it("logs the output of a failed start whenever it differs", async () => {
    const says = [["a", "b"], ["a", "b"], ["c"], [], ["a"], ["a"], ["a"]];
    const { sidecar: peer, logged } = sidecar("", () =>
      Promise.reject(new ProcessExitError({ code: 3, signal: null, lines: says.shift() ?? [] })),
    );
    vi.useFakeTimers();
    await peer.start();
    await vi.advanceTimersByTimeAsync(BACKOFF_MS.reduce((sum, pause) => sum + pause, 0) + 1_000);
    await peer.restart(); // the user has restarted it
    vi.useRealTimers();
    const ends = "the sidecar ended: exit code 3";
    const first = ["sidecar: a", "sidecar: b", ends, ends, "sidecar: c", ends, ends, "sidecar: a", ends, ends];
    expect(logged).toEqual([...first, "sidecar: a", ends]);
  });

  it("runs one process at a time, however often it is restarted", async () => {
    let [live, most, begun] = [0, 0, 0];
    const counting: Connect = async (launch, ended, abort) => {
      most = Math.max(most, ++live);
      begun += 1;
      try {
        const wire = await pipe(launch, ended, abort);
        return { ...wire, stop: () => wire.stop().finally(() => (live -= 1)) };
      } catch (error) {
        live -= 1;
        throw error;
      }
    };
    const { sidecar: peer, states } = sidecar("", counting);
    await peer.start();
    const all = [peer.restart(), peer.restart()];
    await until(() => begun === 2);
    all.push(peer.restart(), peer.start());
    await Promise.all(all);
    expect(peer.state.kind).toBe("running");
    expect(await peer.request("understudy/version", {})).toMatchObject({ protocolVersion: PROTOCOL_VERSION });
    expect([live, most]).toEqual([1, 1]);
    expect(states.map(({ kind }) => kind)).not.toContain("crashed");
  });

  it("cancels a start that hangs, and serves waiting requests with the next one", async () => {
    let launches = 0;
    let broken = false;
    let settle = (): void => {};
    const hangs: Connect = (launch, ended, abort) =>
      launches++ > 0
        ? pipe(launch, ended, abort)
        : new Promise((_, reject) => {
            abort.addEventListener("abort", () => (broken = true));
            settle = () => reject(new ProcessExitError({ code: null, signal: "SIGKILL", lines: [] }));
          });
    const { sidecar: peer } = sidecar("", hangs);
    void peer.start();
    await until(() => launches === 1);
    const restarted = peer.restart();
    expect(broken).toBe(true);
    const asked = [peer.request("understudy/version", {})];
    settle();
    await until(() => launches === 2);
    asked.push(peer.request("understudy/version", {}));
    for (const answer of await Promise.all(asked)) expect(answer).toMatchObject({ protocolVersion: PROTOCOL_VERSION });
    await restarted;
  });

  it("is not started by a request while the window closes", async () => {
    const { sidecar: peer, states } = sidecar("");
    await peer.start();
    const ended = peer.end();
    await expect(peer.request("understudy/version", {})).rejects.toMatchObject({ kind: "connection_failed" });
    await ended;
    await expect(peer.request("understudy/version", {})).rejects.toMatchObject({ kind: "connection_failed" });
    expect(states.map(({ kind }) => kind)).toEqual(["starting", "running", "off"]);
  });

  it("limits the time of a response, except where programs of the user run", async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const silent: Connect = () =>
      Promise.resolve({
        serverInfo: { protocolVersion: PROTOCOL_VERSION, version: "0.1.0", requests: [], notifications: [] },
        request: (_, __, signal) => new Promise<never>(() => void signals.push(signal)),
        onNotification: () => ({ dispose: () => {} }),
        stop: () => Promise.resolve(),
      });
    const { sidecar: peer } = sidecar("", silent);
    await peer.start();
    vi.useFakeTimers();
    try {
      let error: unknown;
      let checked = false;
      let lost: unknown;
      peer.request("understudy/doctor", {}).catch((reason: unknown) => (error = reason));
      const checking = peer.request("understudy/delegations/check", { id: "a" });
      checking.then(
        () => (checked = true),
        (reason: unknown) => (lost = toErrorInfo(reason)),
      );
      await vi.advanceTimersByTimeAsync(ANSWER_MS - 1);
      expect([error, signals[0]?.aborted]).toEqual([undefined, false]);
      await vi.advanceTimersByTimeAsync(ANSWER_MS);
      expect(toErrorInfo(error)).toMatchObject({ kind: "timed_out" });
      expect([signals[0]?.aborted, checked]).toEqual([true, false]);
      // No process is left to respond.
      void peer.stop();
      await vi.advanceTimersByTimeAsync(0);
      expect(lost).toMatchObject({ kind: "connection_failed" });
    } finally {
      vi.useRealTimers();
    }
  });

  it("reports why the search failed, and searches again", async () => {
    let looks = 0;
    const states: SidecarState[] = [];
    const made = new Sidecar({
      locate: () =>
        looks++ === 0 ? Promise.reject(new Error("EMFILE: too many open files")) : Promise.resolve({ searched: [] }),
      launch: () => {
        throw new Error("nothing was found");
      },
      connect: pipe,
      log: () => {},
    });
    made.onDidChange((state) => states.push(state));
    running.push(made);
    await made.start();
    expect(states.at(-1)).toMatchObject({ kind: "crashed", cause: "EMFILE: too many open files" });
    await until(() => made.state.kind === "missing");
    await expect(made.request("understudy/version", {})).rejects.toMatchObject({
      message: "Understudy is not installed on this machine.",
      repair: { title: "Install Engine", command: "understudy.install" },
    });
  });

  it("reports the output of a program that never initialized", async () => {
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
  ])("names the side to update when the peer is %s", async (peer, upgrade) => {
    const { sidecar: made } = sidecar(peer);
    await made.start();
    expect(made.state).toMatchObject({ kind: "mismatch", upgrade });
    await expect(made.request("understudy/version", {})).rejects.toMatchObject({
      kind: "connection_failed",
      repair: { title: upgrade === "sidecar" ? "Install Engine" : "Show Options" },
    });
  });

  it("refuses requests that the sidecar does not support", async () => {
    const { sidecar: peer } = sidecar("");
    await expect(peer.request("understudy/worktrees/list", {})).rejects.toMatchObject({ kind: "unknown_method" });
  });

  it.runIf(existsSync(REAL))("works with the real sidecar", async () => {
    const home = mkdtempSync(path.join(os.tmpdir(), "understudy-home-"));
    const env = {
      ...sidecarEnvironment(process.env),
      HOME: home,
      XDG_CONFIG_HOME: "",
      XDG_STATE_HOME: "",
      XDG_CACHE_HOME: "",
    };
    const made = new Sidecar({
      locate: () => Promise.resolve({ found: { command: REAL, origin: "setting" as const }, searched: [REAL] }),
      launch: () => ({ command: REAL, args: ["serve"], cwd: home, env, trusted: true }),
      connect: pipe,
      log: () => {},
    });
    running.push(made);
    await made.start();
    expect(made.state).toMatchObject({ kind: "running", serverInfo: { protocolVersion: PROTOCOL_VERSION } });
    const { delegators } = await made.request("understudy/delegators/list", {});
    expect(delegators.map(({ scope }) => scope)).toContain("builtin");
    expect(await made.request("understudy/delegations/list", { limit: 10 })).toEqual({ delegations: [] });
    await expect(made.request("understudy/delegations/get", { id: "20200101-000000-zzzzz" })).rejects.toMatchObject({
      kind: "unknown_delegation",
    });
    await made.stop();
    rmSync(home, { recursive: true, force: true });
  });
});

describe("spawnSidecar", () => {
  const launch = (script: string): Parameters<typeof spawnSidecar>[0] => ({
    command: process.execPath,
    args: ["-e", script],
    cwd: os.tmpdir(),
    env: sidecarEnvironment(process.env),
    trusted: true,
  });

  it("kills a process that does not exit in time, and reports that as the cause", async () => {
    const child = spawnSidecar(launch("console.error('busy'); setInterval(() => {}, 1000)"), () => {});
    await child.endWithin(300, "it stopped responding");
    const ending = await child.ended;
    expect(ending).toMatchObject({ signal: "SIGKILL", fault: "it stopped responding" });
    expect(exitCause(ending)).toContain("it stopped responding");
  });

  it("reports the cause of a process that exits by itself", async () => {
    const child = spawnSidecar(launch("process.exit(7)"), () => {});
    await child.endWithin(10_000, "it stopped responding");
    expect(exitCause(await child.ended)).toBe("exit code 7");
  });

  it("reports why a process cannot be started", async () => {
    const child = spawnSidecar({ ...launch(""), command: path.join(os.tmpdir(), "understudy-is-not-here") }, () => {});
    child.kill();
    expect(exitCause(await child.ended)).toContain("ENOENT");
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
  const look = (change: Partial<LocateOptions>): LocateOptions => ({
    setting: "",
    homePath: top,
    variables: { PATH: path.join(top, "nothing") },
    platform: "linux",
    folders: [path.join(top, "work")],
    installed: stored,
    ...change,
  });

  it("uses the setting, then PATH, then the installation", async () => {
    const variables = { PATH: `${path.join(top, "nothing")}:${path.join(top, "bin")}` };
    expect((await locate(look({ setting: "~/bin/understudy", variables }))).found).toEqual({
      command: onPath,
      origin: "setting",
    });
    expect((await locate(look({ variables }))).found).toEqual({ command: onPath, origin: "path" });
    expect((await locate(look({}))).found).toEqual({ command: stored, origin: "storage" });
    expect((await locate(look({ folders: [], installed: undefined }))).found).toBeUndefined();
  });

  it("ignores the workspace and relative entries of PATH", async () => {
    expect((await locate(look({ installed: undefined }))).found).toBeUndefined();
    const variables = { PATH: `.venv/bin:${path.relative(process.cwd(), path.dirname(inVenv))}` };
    expect((await locate(look({ installed: undefined, variables }))).found).toBeUndefined();
  });

  it("does not fall back if the setting is wrong, and reports it", async () => {
    const located = await locate(look({ setting: path.join(top, "gone") }));
    expect(located).toEqual({ searched: [path.join(top, "gone")] });
    expect((await locate(look({ setting: "understudy" }))).searched[0]).toContain("must be an absolute path");
  });
});

describe("the environment of the sidecar", () => {
  it("has no tmux pane: agents would be shown beside the shell that started the editor", () => {
    const given = { HOME: "/home/ada", TMUX: "/tmp/tmux-1000/default,1,0", TMUX_PANE: "%0" };
    expect(sidecarEnvironment(given)).toEqual({ HOME: "/home/ada", PYTHONSAFEPATH: "1" });
  });
});
