import { describe, expect, it, vi } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import { registerStatus } from "../../src/health/statusBar.ts";
import { PROTOCOL_VERSION, type Delegation } from "../../src/protocol.ts";
import type { SidecarState } from "../../src/sidecar/sidecar.ts";
import type { Change } from "../../src/state/store.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const DONE = result("understudy/delegations/get", "delegations-get.valid");
const LEDGER = result("understudy/ledger/read", "ledger-read.valid");
const RUNNING: SidecarState = {
  kind: "running",
  found: { command: "/usr/bin/understudy", origin: "path" },
  serverInfo: { protocolVersion: PROTOCOL_VERSION, version: "0.1.0", requests: [], notifications: [] },
};

describe("the status bar item", () => {
  it("shows what today has cost, read again when a delegation has finished and when the day is over", async () => {
    vi.useFakeTimers({ now: new Date(2026, 10, 28, 23, 0), toFake: ["setTimeout", "clearTimeout", "Date"] });
    const host = new FakeHost();
    const changed = new Emitter<Change>();
    const delegations: Delegation[] = [];
    const store = { delegations, problems: [], onDidChange: changed.subscribe };
    const totals = { ...LEDGER.totals, attempts: 3, costUsd: "0.42", costsUnknown: 1 };
    const peer = new GoldenSidecar().answer("understudy/ledger/read", () => ({ ...LEDGER, totals }));
    const sidecar = Object.assign(peer, { state: RUNNING, onDidChange: new Emitter<SidecarState>().subscribe });
    const status = registerStatus({ host, sidecar, store });
    const redraw = async (): Promise<void> => {
      changed.fire({} as Change);
      await settled();
    };
    await redraw();
    expect(host.statuses.at(-1)).toMatchObject({ text: "$(check) Understudy $0.42" });
    expect(host.statuses.at(-1)?.spoken).toBe("Understudy, Today: $0.42, 3 attempts, the cost of 1 is unknown");
    expect(peer.params("understudy/ledger/read")).toEqual([{ since: new Date(2026, 10, 28).toISOString(), limit: 1 }]);
    await redraw();
    expect(peer.params("understudy/ledger/read"), "nothing has finished").toHaveLength(1);
    delegations.push(DONE);
    await redraw();
    expect(peer.params("understudy/ledger/read")).toHaveLength(2);
    Object.assign(totals, { attempts: 0, costUsd: "0", costsUnknown: 0 });
    vi.advanceTimersByTime(3_600_000);
    await settled();
    expect(host.statuses.at(-1)?.text).toBe("$(check) Understudy");
    expect(peer.params("understudy/ledger/read").at(-1)).toMatchObject({ since: new Date(2026, 10, 29).toISOString() });
    status.dispose();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});
