/** Whatever the editor does with the files of a result: no change is lost without an undo. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { Emitter } from "../../src/base/events.ts";
import { SidecarError } from "../../src/sidecar/connection.ts";
import { OpenResults } from "../../src/review/openResults.ts";
import { ResultFiles } from "../../src/review/resultFiles.ts";
import { EDIT, RESULT, reviewUri } from "../../src/review/reviewUris.ts";
import type { DiffResult, Hunk } from "../../src/protocol.ts";
import type { FileChange } from "../../src/host/host.ts";
import { FakeHost } from "../support/fakeHost.ts";
import { GoldenSidecar } from "../support/golden.ts";
import { settled } from "../support/flushPromises.ts";

const ID = "20261121-004512-k3f9q";
const NAME = "a.py";
const COPY = reviewUri(EDIT, ID, NAME);
const SHOWN = reviewUri(RESULT, ID, NAME);
const BASE_LINES = ["one", "two", "three", "four", "five"];
const STEPS = ["open", "type", "revertBlock", "save", "saveAll", "hotExit", "elsewhere", "undoEdit", "rename"] as const;

/** Reproducible numbers from 0 to `most` − 1 (mulberry32). */
function numbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % most;
  };
}

/** The engine: one file, its versions, each line that differs from the base a hunk. */
class Engine {
  readonly versions = [["ONE", "two", "THREE", "four", "FIVE"].join("\n")];
  edits = 0;

  get text(): string {
    return this.versions.at(-1)!;
  }

  get head(): string {
    return `head${this.edits}`;
  }

  get diff(): DiffResult {
    const frame = { oldLines: 1, newLines: 1, state: "pending", conflict: false, edited: false } as const;
    const hunks = this.text.split("\n").flatMap((line, index): Hunk[] => {
      if (line === BASE_LINES[index]) return [];
      return [{ ...frame, id: `${index}${line}`, oldStart: index + 1, newStart: index + 1 }];
    });
    const at = new Date(Date.UTC(2026, 10, 21, 1, 0, this.edits)).toISOString();
    return {
      base: "base",
      head: this.head,
      files: hunks.length > 0 ? [{ path: NAME, status: "modified", binary: false, hunks }] : [],
      undoable: [],
      edited: this.edits > 0 ? [{ path: NAME, at, undoable: this.versions.length > 1 }] : [],
    };
  }

  amend(text: string, head: string): void {
    if (head !== this.head) throw new SidecarError({ kind: "conflict", message: "The result has changed." });
    if (text === this.text) return;
    this.versions.push(text);
    this.edits++;
  }

  undo(): void {
    this.versions.pop();
    this.edits++;
  }
}

afterEach(() => {
  vi.useRealTimers();
});

describe("files of a result in the editor", () => {
  it("are not announced as deleted while they cannot be read", async () => {
    const changes = new Emitter<{ id: string; paths: readonly string[] }>();
    const host = new FakeHost();
    const told: FileChange[] = [];
    let content: () => Promise<never> = () => Promise.reject(new Error("it has stopped"));
    const result = () => Promise.resolve({ content: () => content() } as never);
    new ResultFiles({ host, openResults: { result, onDidChange: changes.subscribe } });
    host.files.get(RESULT)!.onDidChange((found) => told.push(...found));
    changes.fire({ id: ID, paths: [NAME] });
    await settled();
    content = () => Promise.resolve({ bytes: undefined } as never);
    changes.fire({ id: ID, paths: [NAME] });
    await settled();
    const of = (kind: FileChange["kind"]) => [SHOWN, COPY].map((uri) => ({ uri, kind }));
    expect(told).toEqual([...of("changed"), ...of("deleted")]);
  });

  it.each(Array.from({ length: 60 }, (_, seed) => seed))(
    "keep every hunk, or an undo of it (seed %i)",
    async (seed) => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      const next = numbers(seed);
      const engine = new Engine();
      const original = engine.diff.files;
      const peer = new GoldenSidecar()
        .answer("understudy/delegations/diff", () => engine.diff)
        .answer("understudy/delegations/file", ({ side }) => ({
          text: side === "base" ? BASE_LINES.join("\n") : engine.text,
          mode: "100644",
        }))
        .answer("understudy/delegations/amend", ({ text, head }) => {
          engine.amend(text, head);
          return { head: engine.head, hunks: [] };
        })
        .answer("understudy/delegations/undoAmend", ({ head }) => {
          expect(head).toBe(engine.head);
          engine.undo();
          return { head: engine.head, hunks: [] };
        });
      let notify = (): void => {};
      let host: FakeHost;
      let results: OpenResults;
      let told: FileChange[];
      /** The text of the copy in the editor; undefined: not open. */
      let typed: string | undefined;
      /** What this window has read of the copy: the edit is based on it. */
      let basis: string | undefined;
      const window = (): void => {
        host = new FakeHost();
        told = [];
        basis = undefined;
        const follow = (_: string, listener: (events: never) => void) => {
          notify = () => listener([{ type: "amended" }] as never);
          return Promise.resolve({ dispose: () => {} });
        };
        results = new OpenResults({ requester: peer, store: { follow } });
        new ResultFiles({ host, openResults: results });
        host.files.get(RESULT)!.onDidChange((changes) => told.push(...changes));
      };
      const copy = () => host.files.get(EDIT)!;
      const read = async (uri: string): Promise<string> => {
        const text = Buffer.from(await host.files.get(uri === COPY ? EDIT : RESULT)!.read(uri)).toString();
        if (uri === COPY) basis = text;
        return text;
      };
      const settle = async (): Promise<void> => {
        await vi.advanceTimersByTimeAsync(80);
        await settled();
      };
      const change = (text: string, line: string): string =>
        text
          .split("\n")
          .map((old, index) => (index === next(5) ? line : old))
          .join("\n");
      const save = async (): Promise<void> => {
        if (typed === undefined) return;
        // What the user has not seen is not overwritten.
        const isStale = basis !== undefined && typed !== basis && engine.text !== basis;
        const saved = copy().write!(COPY, Buffer.from(typed));
        if (isStale) {
          await expect(saved).rejects.toThrow("was changed in the result");
          typed = await read(COPY); // the user reverts the copy
          return;
        }
        await saved;
        if (typed !== basis) expect(engine.text).toBe(typed);
        basis = typed;
      };
      const steps: Record<(typeof STEPS)[number], () => Promise<void> | void> = {
        open: async () => void (typed ??= await read(COPY)),
        type: () => void (typed = typed === undefined ? undefined : change(typed, `typed ${next(100)}`)),
        // As the arrow of the diff does: the lines of the base.
        revertBlock: () => {
          const at = next(5);
          typed = typed
            ?.split("\n")
            .map((line, index) => (index === at ? BASE_LINES[index]! : line))
            .join("\n");
        },
        save,
        saveAll: save,
        // The next window restores the unsaved text without reading the file.
        hotExit: window,
        elsewhere: async () => {
          engine.amend(change(engine.text, `elsewhere ${next(100)}`), engine.head);
          notify();
          await settle();
        },
        undoEdit: async () => {
          const result = await results.result(ID);
          if (result.edited.some(({ undoable }) => undoable)) await result.undoEdit(NAME);
        },
        rename: () => expect(Object.keys(copy())).toEqual(["read", "stat", "write", "onDidChange"]),
      };
      window();
      let shown = await read(SHOWN);
      let stat = await host!.files.get(RESULT)!.stat!(SHOWN);
      for (let count = 0; count < 25; count++) {
        const step = STEPS[next(STEPS.length)]!;
        const versions = engine.versions.length;
        await steps[step]();
        await settle();
        // No version disappears, except by an undo.
        expect(engine.versions.length, step).toBeGreaterThanOrEqual(versions - (step === "undoEdit" ? 1 : 0));
        const after = await host!.files.get(RESULT)!.stat!(SHOWN);
        expect(after.size).toBe(Buffer.byteLength(engine.text));
        expect(await read(SHOWN), step).toBe(engine.text);
        if (engine.text !== shown) {
          expect(after.changed, step).toBeGreaterThan(stat.changed);
          if (step !== "hotExit")
            expect(
              told!.map(({ uri }) => uri),
              step,
            ).toContain(SHOWN);
        }
        [shown, stat] = [engine.text, after];
        told!.length = 0;
      }
      // The window offers the way back to the first version, even if no change is left.
      const result = await results!.result(ID);
      while (result.edited.some(({ undoable }) => undoable)) await result.undoEdit(NAME);
      expect(result.files).toEqual(original);
    },
  );
});
