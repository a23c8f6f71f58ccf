import { afterEach, describe, expect, it, vi } from "vitest";
import { DisposableStore, Emitter, serialize, defer } from "../../src/base/events.ts";

/** Reported as an uncaught error in production. */
function faults(): unknown[] {
  const found: unknown[] = [];
  vi.spyOn(globalThis, "queueMicrotask").mockImplementation((work) => {
    try {
      work();
    } catch (error) {
      found.push(error);
    }
  });
  return found;
}

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("Emitter", () => {
  it("calls every listener even if one throws", () => {
    const found = faults();
    const emitter = new Emitter<number>();
    const heard: string[] = [];
    emitter.subscribe((value) => heard.push(`first ${value}`));
    emitter.subscribe(() => {
      throw new Error("a failure");
    });
    emitter.subscribe((value) => heard.push(`last ${value}`));
    emitter.fire(1);
    expect(heard).toEqual(["first 1", "last 1"]);
    expect(found).toEqual([new Error("a failure")]);
  });

  it("does not call a disposed listener, not even in the same round", () => {
    const emitter = new Emitter<void>();
    let heard = 0;
    emitter.subscribe(() => other.dispose());
    const other = emitter.subscribe(() => (heard += 1));
    emitter.fire();
    emitter.fire();
    expect(heard).toBe(0);
  });

  it("can hold a listener twice, and disposes of each separately", () => {
    const emitter = new Emitter<void>();
    let heard = 0;
    const listener = (): void => void (heard += 1);
    const one = emitter.subscribe(listener);
    emitter.subscribe(listener);
    emitter.fire();
    one.dispose();
    emitter.fire();
    expect(heard).toBe(3);
    emitter.dispose();
    emitter.fire();
    expect(heard).toBe(3);
  });
});

describe("DisposableStore", () => {
  it("disposes of its items in reverse order, even if one throws", () => {
    const found = faults();
    const disposables = new DisposableStore();
    const ended: number[] = [];
    disposables.add({ dispose: () => void ended.push(1) });
    disposables.add({
      dispose: () => {
        throw new Error("it cannot");
      },
    });
    disposables.add({ dispose: () => void ended.push(3) });
    disposables.dispose();
    disposables.dispose();
    expect(ended).toEqual([3, 1]);
    expect(found).toEqual([new Error("it cannot")]);
  });

  it("disposes at once of an item that is added too late", () => {
    const disposables = new DisposableStore();
    disposables.dispose();
    let ended = false;
    disposables.add({ dispose: () => void (ended = true) });
    expect(ended).toBe(true);
  });
});

describe("defer", () => {
  it("runs after the current code, unless it is disposed of", () => {
    vi.useFakeTimers();
    const ran: string[] = [];
    defer(() => ran.push("one"));
    defer(() => ran.push("other")).dispose();
    expect(ran).toEqual([]);
    vi.runAllTimers();
    expect(ran).toEqual(["one"]);
  });
});

describe("serialize", () => {
  it("runs once more for all calls during a run", async () => {
    const ends: (() => void)[] = [];
    const run = serialize(() => new Promise<void>((resolve) => void ends.push(resolve)));
    const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    for (let time = 0; time < 3; time += 1) run();
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await settled();
    expect(ends).toHaveLength(2);
    ends[1]?.();
    await settled();
    expect(ends).toHaveLength(2);
    run();
    expect(ends).toHaveLength(3);
  });
});
