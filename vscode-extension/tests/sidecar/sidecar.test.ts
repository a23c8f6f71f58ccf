import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { locate, type Look } from "../src/client/locate.ts";
import { environment, start } from "../src/client/process.ts";
import { ANSWER_MS, BACKOFF_MS, Sidecar, type SidecarState } from "../src/client/sidecar.ts";
import { causeOf, EndedError, errorInfo, type Connect } from "../src/client/wire.ts";
import { pipe } from "./support/pipe.ts";

const PEER = path.join(import.meta.dirname, "support/peer.mjs");
const REAL = path.join(import.meta.dirname, "../../.venv/bin/understudy");

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
    locate: () => Promise.resolve({ found: { command: PEER, origin: "setting" as const }, looked: [PEER] }),
    launch: () => ({
      command: process.execPath,
      args: [PEER],
      cwd: os.tmpdir(),
      env: { ...environment(process.env), PEER: peer },
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
    const { sidecar: peer, states, logged } = sidecar("", () => Promise.reject(new EndedError(ending)));
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

  it("logs what a start that fails said whenever that is something else", async () => {
    const says = [["a", "b"], ["a", "b"], ["c"], [], ["a"], ["a"], ["a"]];
    const { sidecar: peer, logged } = sidecar("", () =>
      Promise.reject(new EndedError({ code: 3, signal: null, lines: says.shift() ?? [] })),
    );
    vi.useFakeTimers();
    await peer.start();
    await vi.advanceTimersByTimeAsync(BACKOFF_MS.reduce((sum, pause) => sum + pause, 0) + 1_000);
    await peer.restart(); // a person began anew
    vi.useRealTimers();
    const ends = "the sidecar ended: exit code 3";
    const first = ["sidecar: a", "sidecar: b", ends, ends, "sidecar: c", ends, ends, "sidecar: a", ends, ends];
    expect(logged).toEqual([...first, "sidecar: a", ends]);
  });

  it("has one process at a time, however often it is started again meanwhile", async () => {
    let [live, most, begun] = [0, 0, 0];
    const counting: Connect = async (launch, ended, giveUp) => {
      most = Math.max(most, ++live);
      begun += 1;
      try {
        const wire = await pipe(launch, ended, giveUp);
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
    expect(await peer.ask("understudy/version", {})).toMatchObject({ protocolVersion: 1 });
    expect([live, most]).toEqual([1, 1]);
    expect(states.map(({ kind }) => kind)).not.toContain("crashed");
  });

  it("breaks off a start that hangs, and answers those who wait for the next one", async () => {
    let launches = 0;
    let broken = false;
    let settle = (): void => {};
    const hangs: Connect = (launch, ended, giveUp) =>
      launches++ > 0
        ? pipe(launch, ended, giveUp)
        : new Promise((_, reject) => {
            giveUp.addEventListener("abort", () => (broken = true));
            settle = () => reject(new EndedError({ code: null, signal: "SIGKILL", lines: [] }));
          });
    const { sidecar: peer } = sidecar("", hangs);
    void peer.start();
    await until(() => launches === 1);
    const restarted = peer.restart();
    expect(broken).toBe(true);
    const asked = [peer.ask("understudy/version", {})];
    settle();
    await until(() => launches === 2);
    asked.push(peer.ask("understudy/version", {}));
    for (const answer of await Promise.all(asked)) expect(answer).toMatchObject({ protocolVersion: 1 });
    await restarted;
  });

  it("is not started again by a question when the window closes", async () => {
    const { sidecar: peer, states } = sidecar("");
    await peer.start();
    const ended = peer.end();
    await expect(peer.ask("understudy/version", {})).rejects.toMatchObject({ kind: "connection_failed" });
    await ended;
    await expect(peer.ask("understudy/version", {})).rejects.toMatchObject({ kind: "connection_failed" });
    expect(states.map(({ kind }) => kind)).toEqual(["starting", "running", "off"]);
  });

  it("does not wait for ever for an answer, except where the programs of others run", async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const silent: Connect = () =>
      Promise.resolve({
        greeting: { protocolVersion: 1, version: "0.1.0", requests: [], notifications: [] },
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
      peer.ask("understudy/doctor", {}).catch((reason: unknown) => (error = reason));
      const checking = peer.ask("understudy/delegations/check", { id: "a" });
      checking.then(
        () => (checked = true),
        (reason: unknown) => (lost = errorInfo(reason)),
      );
      await vi.advanceTimersByTimeAsync(ANSWER_MS - 1);
      expect([error, signals[0]?.aborted]).toEqual([undefined, false]);
      await vi.advanceTimersByTimeAsync(ANSWER_MS);
      expect(errorInfo(error)).toMatchObject({ kind: "timed_out" });
      expect([signals[0]?.aborted, checked]).toEqual([true, false]);
      // Nobody is left who could answer.
      void peer.stop();
      await vi.advanceTimersByTimeAsync(0);
      expect(lost).toMatchObject({ kind: "connection_failed" });
    } finally {
      vi.useRealTimers();
    }
  });

  it("says what kept it from being looked for, and looks again", async () => {
    let looks = 0;
    const states: SidecarState[] = [];
    const made = new Sidecar({
      locate: () =>
        looks++ === 0 ? Promise.reject(new Error("EMFILE: too many open files")) : Promise.resolve({ looked: [] }),
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

describe("a process", () => {
  const launch = (script: string): Parameters<typeof start>[0] => ({
    command: process.execPath,
    args: ["-e", script],
    cwd: os.tmpdir(),
    env: environment(process.env),
    trusted: true,
  });

  it("is ended when it does not end in time, and that is its cause", async () => {
    const child = start(launch("console.error('busy'); setInterval(() => {}, 1000)"), () => {});
    await child.endWithin(300, "it does not listen any more");
    const ending = await child.ended;
    expect(ending).toMatchObject({ signal: "SIGKILL", fault: "it does not listen any more" });
    expect(causeOf(ending)).toContain("it does not listen any more");
  });

  it("that ends by itself has its own cause", async () => {
    const child = start(launch("process.exit(7)"), () => {});
    await child.endWithin(10_000, "it does not listen any more");
    expect(causeOf(await child.ended)).toBe("exit code 7");
  });

  it("that cannot be started says why", async () => {
    const child = start({ ...launch(""), command: path.join(os.tmpdir(), "understudy-is-not-here") }, () => {});
    child.kill();
    expect(causeOf(await child.ended)).toContain("ENOENT");
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
