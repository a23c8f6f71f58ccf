/**
 * What the extension itself takes for its views, in processor time of one thread, beside something plain:
 *
 *     npm run bench
 *
 * - refresh: 20 live delegations with 30 events a second each; what arrives in a tenth of a second is folded, gathered,
 *   and the rows that changed are made anew, in every view. Limit: 16 ms, one frame.
 * - past: 500 past delegations are read, ordered, grouped, and every row is made. Limit: 300 ms.
 *
 * - another: one more event in a transcript of 10,000, drawn anew. Limit: half of the pause
 *   between two drawings.
 *
 * The plain thing is what cannot be saved: parsing the same JSON. Exit code 1: a limit is passed.
 */

import { Emitter } from "../../src/base/emitter.ts";
import type { Hearer } from "../../src/client/wire.ts";
import { GATHER_MS, Store } from "../../src/model/store.ts";
import type { Delegation, Event, Notifications } from "../../src/protocol.ts";
import { DelegationRows, PAGE_OF_GROUP } from "../../src/views/delegations.ts";
import { DelegatorRows } from "../../src/views/delegators.ts";
import { TranscriptText } from "../../src/transcript/render.ts";
import { DRAW_MS } from "../../src/transcript/transcripts.ts";
import { registerStatus } from "../../src/health/status.ts";
import type { Rows } from "../../src/host/host.ts";
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
  ): ReturnType<Hearer["on"]> {
    return name === "understudy/event" ? this.events.signal(listener as never) : super.on(name, listener);
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

/** Make every row as the editor asks for them: children first, then each one's item. */
function draw(rows: Rows, ids: readonly string[] = rows.children()): number {
  let drawn = 0;
  for (const one of ids) {
    const row = rows.row(one);
    drawn += 1;
    if (row && row.children !== "none") drawn += draw(rows, rows.children(one));
  }
  return drawn;
}

function open(asker: Peer): { store: Store; rows: DelegationRows; redrawn: () => number } {
  const store = new Store({ asker, hearer: asker, workspaces: () => [], log: () => {}, gatherMs: 0 });
  const rows = new DelegationRows({ store, here: () => true });
  const delegators = new DelegatorRows(store);
  const host = new FakeHost();
  const found = { command: "/usr/bin/understudy", origin: "path" } as const;
  const greeting = { protocolVersion: 1, version: "0.1.0", requests: [], notifications: [] };
  registerStatus({
    host,
    sidecar: { state: { kind: "running", found, greeting }, onDidChange: new Emitter<never>().signal },
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
  const asker = peer([...past, ...live]);
  const { store, redrawn } = open(asker);
  await store.attach();
  await turn();
  const perRefresh = Math.round((EVERY_SECOND * GATHER_MS) / 1000);
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
        for (const batch of batches) asker.events.fire(batch);
        asker.notify("understudy/changed", { collections: ["delegations"] }); // as the sidecar says after every burst
        while (redrawn() === before) await turn();
      }),
    );
    if (redrawn() - before < LIVE) throw new Error(`${redrawn() - before} rows were drawn, not ${LIVE}`);
  }
  store.dispose();
  const lists = asker.params("understudy/delegations/list").length;
  if (lists !== 1) throw new Error(`The list was read ${lists} times, not once`);
  return { measured, plain };
}

async function drawPast(): Promise<{ measured: number[]; plain: number[] }> {
  const wire = JSON.stringify(past);
  const [measured, plain]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    let delegations: Delegation[] = [];
    plain.push(await measure(() => void (delegations = JSON.parse(wire) as Delegation[])));
    const asker = peer(delegations);
    const { store, rows } = open(asker);
    let drawn = 0;
    measured.push(
      await measure(async () => {
        await store.attach();
        for (const group of ["review", "done"] as const) {
          for (let page = PAGE_OF_GROUP; page < PAST; page += PAGE_OF_GROUP) rows.more(group);
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
