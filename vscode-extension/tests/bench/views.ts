/**
 * Processor time of one thread for updating the views, next to a baseline:
 *
 *     npm run bench
 *
 * - refresh: 20 running delegations with 30 events a second each. The events of a tenth of a second are folded and batched,
 *   and the changed rows are created in every view. Limit: 16 ms, one frame.
 * - past: 500 past delegations are read, sorted and grouped, and every row is created. Limit: 300 ms.
 * - another: one more event is rendered in a transcript of 10,000. Limit: half of the pause between two updates.
 *
 * The baseline is work that cannot be avoided: parsing the same JSON. Exit code 1: a limit was exceeded.
 */

import { PROTOCOL_VERSION } from "../../src/protocol.ts";
import { Emitter } from "../../src/base/events.ts";
import type { Subscriber } from "../../src/sidecar/connection.ts";
import { BATCH_MS, Store } from "../../src/state/store.ts";
import type { Delegation, Event, Notifications } from "../../src/protocol.ts";
import { DelegationTree, GROUP_PAGE_SIZE } from "../../src/delegations/delegationTree.ts";
import { DelegatorTree } from "../../src/delegators/delegatorTree.ts";
import { TranscriptText } from "../../src/transcript/transcriptText.ts";
import { DRAW_MS } from "../../src/transcript/transcriptDocuments.ts";
import { registerStatus } from "../../src/health/statusBar.ts";
import type { TreeDataProvider } from "../../src/host/host.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

const [LIVE, EVERY_SECOND, PAST, ROUNDS] = [20, 30, 500, 40] as const;
const EVENTS = 10_000;
const LIMITS = { refresh: 16, past: 300, another: DRAW_MS / 2 };

const example = result("understudy/delegations/get", "delegations-get.valid");
const id = (number: number): string => `20261121-${String(100_000 + number)}-aaaaa`;
const past = Array.from({ length: PAST }, (_, number): Delegation => ({ ...example, id: id(number) }));
const live = Array.from({ length: LIVE }, (_, number): Delegation => {
  const now = { ...example, id: id(PAST + number), state: "running" as const, lastSeq: 0 };
  delete now.verdict;
  delete now.finishedAt;
  delete now.result;
  return now;
});

/** A sidecar whose events are sent by hand. */
class Peer extends GoldenSidecar {
  readonly events = new Emitter<Notifications["understudy/event"]>();

  override on<N extends keyof Notifications>(
    name: N,
    listener: (params: Notifications[N]) => void,
  ): ReturnType<Subscriber["on"]> {
    return name === "understudy/event" ? this.events.subscribe(listener as never) : super.on(name, listener);
  }
}

function peer(delegations: Delegation[]): Peer {
  const one = new Peer();
  one
    .answer("understudy/delegators/list", result("understudy/delegators/list", "delegators-list.valid"))
    .answer("understudy/modelServers/list", result("understudy/modelServers/list", "modelServers-list.valid"))
    .answer("understudy/recipes/list", result("understudy/recipes/list", "recipes-list.valid"))
    .answer("understudy/delegations/list", { delegations })
    .answer("understudy/delegations/subscribe", {});
  return one;
}

/** Create every row as the editor requests them: children first, then each item. */
function draw(rows: TreeDataProvider, ids: readonly string[] = rows.children()): number {
  let drawn = 0;
  for (const one of ids) {
    const row = rows.row(one);
    drawn += 1;
    if (row && row.children !== "none") drawn += draw(rows, rows.children(one));
  }
  return drawn;
}

function open(requester: Peer): { store: Store; rows: DelegationTree; redrawn: () => number } {
  const store = new Store({ requester, subscriber: requester, workspaces: () => [], log: () => {}, batchMs: 0 });
  const rows = new DelegationTree({ store, inWindow: () => true });
  const delegators = new DelegatorTree(store);
  const host = new FakeHost();
  const found = { command: "/usr/bin/understudy", origin: "path" } as const;
  const greeting = { protocolVersion: PROTOCOL_VERSION, version: "0.1.0", requests: [], notifications: [] };
  registerStatus({
    host,
    sidecar: {
      state: { kind: "running", found, serverInfo: greeting },
      onDidChange: new Emitter<never>().subscribe,
      request: requester.request.bind(requester),
    },
    store,
  });
  rows.setVisible(true);
  let redrawn = 0;
  for (const each of [rows, delegators]) {
    each.onDidChange((ids) => (redrawn += draw(each, ids)));
  }
  return { store, rows, redrawn: () => redrawn };
}

function processor(since?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
}

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

async function measure(work: () => Promise<void> | void): Promise<number> {
  const from = process.cpuUsage();
  await work();
  return processor(from);
}

async function refresh(): Promise<{ measured: number[]; plain: number[] }> {
  const requester = peer([...past, ...live]);
  const { store, redrawn } = open(requester);
  await store.attach();
  await turn();
  const perRefresh = Math.round((EVERY_SECOND * BATCH_MS) / 1000);
  const [measured, plain]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    const batches = live.map((delegation) => ({
      id: delegation.id,
      events: Array.from({ length: perRefresh }, (_, index): Event => {
        const seq = round * perRefresh + index + 1;
        const at = new Date().toISOString();
        return { type: "phase", seq, at, attempt: 1, text: `Looking at file ${seq} of many in the folder` };
      }),
    }));
    const wire = JSON.stringify(batches);
    plain.push(await measure(() => void JSON.parse(wire)));
    const before = redrawn();
    measured.push(
      await measure(async () => {
        for (const batch of batches) requester.events.fire(batch);
        requester.notify("understudy/changed", { collections: ["delegations"] }); // as the sidecar sends after every burst
        while (redrawn() === before) await turn();
      }),
    );
    if (redrawn() - before < LIVE) throw new Error(`${redrawn() - before} rows were drawn, not ${LIVE}`);
  }
  store.dispose();
  const lists = requester.params("understudy/delegations/list").length;
  if (lists !== 1) throw new Error(`The list was read ${lists} times, not once`);
  return { measured, plain };
}

async function drawPast(): Promise<{ measured: number[]; plain: number[] }> {
  const wire = JSON.stringify(past);
  const [measured, plain]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    let delegations: Delegation[] = [];
    plain.push(await measure(() => void (delegations = JSON.parse(wire) as Delegation[])));
    const requester = peer(delegations);
    const { store, rows } = open(requester);
    let drawn = 0;
    measured.push(
      await measure(async () => {
        await store.attach();
        for (const group of ["review", "done"] as const) {
          for (let page = GROUP_PAGE_SIZE; page < PAST; page += GROUP_PAGE_SIZE) rows.more(group);
        }
        drawn = draw(rows);
      }),
    );
    if (drawn < PAST) throw new Error(`${drawn} rows were drawn, not ${PAST}`);
    rows.dispose();
    store.dispose();
  }
  return { measured, plain };
}

async function another(): Promise<{ measured: number[]; plain: number[] }> {
  const frame = { at: example.startedAt, attempt: 1 } as const;
  const made = new TranscriptText();
  made.add(
    Array.from({ length: EVENTS }, (_, index): Event => {
      const seq = index + 1;
      const [call, before] = [`${index}`, `${index - 1}`];
      if (index % 3 === 0)
        return { ...frame, type: "tool_call", seq, callId: call, name: "read", title: `Read ${index}`, input: {} };
      if (index % 3 === 1)
        return { ...frame, type: "tool_result", seq, callId: before, ok: true, output: "line\n".repeat(20) };
      return { ...frame, type: "text", seq, text: "Some words. " };
    }),
  );
  const [measured, plain]: [number[], number[]] = [[], []];
  for (let round = 1; round <= ROUNDS; round++) {
    const wire = JSON.stringify({ ...frame, type: "text", seq: EVENTS + round, text: "More." });
    let event: Event | undefined;
    plain.push(await measure(() => void (event = JSON.parse(wire) as Event)));
    measured.push(
      await measure(() => {
        made.add([event!]);
        made.render(example, Date.parse(example.startedAt));
      }),
    );
  }
  return { measured, plain };
}

const at = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN;

function tell(name: keyof typeof LIMITS, what: string, figures: { measured: number[]; plain: number[] }): boolean {
  const [median, worst, plain] = [at(figures.measured, 0.5), at(figures.measured, 0.95), at(figures.plain, 0.5)];
  const good = worst <= LIMITS[name];
  const ratio = plain > 0 ? `, ${(median / plain).toFixed(1)} times its JSON` : "";
  process.stdout.write(
    `${good ? "ok  " : "MISS"} ${name.padEnd(8)} ${median.toFixed(1)} ms, 95 of 100 within ${worst.toFixed(1)} ms (limit ${LIMITS[name]} ms${ratio}): ${what}\n`,
  );
  return good;
}

const results = [
  tell("refresh", `${LIVE} live delegations, ${EVERY_SECOND} events a second each, ${PAST} past ones`, await refresh()),
  tell("past", `${PAST} past delegations read and every row made`, await drawPast()),
  tell("another", `one more event in a transcript of ${EVENTS}`, await another()),
];
process.exit(results.every(Boolean) ? 0 : 1);
