import { afterEach, describe, expect, it, vi } from "vitest";
import { Bag, Emitter, oneAtATime, soon } from "../src/base/emitter.ts";

/** What would be told as an error that nobody caught. */
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

describe("an emitter", () => {
  it("tells everybody, even when one of them fails", () => {
    const found = faults();
    const emitter = new Emitter<number>();
    const heard: string[] = [];
    emitter.signal((value) => heard.push(`first ${value}`));
    emitter.signal(() => {
      throw new Error("a fault");
    });
    emitter.signal((value) => heard.push(`last ${value}`));
    emitter.fire(1);
    expect(heard).toEqual(["first 1", "last 1"]);
    expect(found).toEqual([new Error("a fault")]);
  });

  it("tells nothing to who was disposed of, not even in the same round", () => {
    const emitter = new Emitter<void>();
    let heard = 0;
    emitter.signal(() => other.dispose());
    const other = emitter.signal(() => (heard += 1));
    emitter.fire();
    emitter.fire();
    expect(heard).toBe(0);
  });

  it("has the same listener twice when it is asked to, and ends them apart", () => {
    const emitter = new Emitter<void>();
    let heard = 0;
    const listener = (): void => void (heard += 1);
    const one = emitter.signal(listener);
    emitter.signal(listener);
    emitter.fire();
    one.dispose();
    emitter.fire();
    expect(heard).toBe(3);
    emitter.dispose();
    emitter.fire();
    expect(heard).toBe(3);
  });
});

describe("a bag", () => {
  it("ends all that is in it, the last one first, even when one cannot end", () => {
    const found = faults();
    const bag = new Bag();
    const ended: number[] = [];
    bag.add({ dispose: () => void ended.push(1) });
    bag.add({
      dispose: () => {
        throw new Error("it cannot");
      },
    });
    bag.add({ dispose: () => void ended.push(3) });
    bag.dispose();
    bag.dispose();
    expect(ended).toEqual([3, 1]);
    expect(found).toEqual([new Error("it cannot")]);
  });

  it("ends at once what comes too late", () => {
    const bag = new Bag();
    bag.dispose();
    let ended = false;
    bag.add({ dispose: () => void (ended = true) });
    expect(ended).toBe(true);
  });
});

describe("soon", () => {
  it("is when whoever runs now is done, unless it is taken back", () => {
    vi.useFakeTimers();
    const ran: string[] = [];
    soon(() => ran.push("one"));
    soon(() => ran.push("other")).dispose();
    expect(ran).toEqual([]);
    vi.runAllTimers();
    expect(ran).toEqual(["one"]);
  });
});

describe("one at a time", () => {
  it("runs once more for all who asked meanwhile", async () => {
    const ends: (() => void)[] = [];
    const run = oneAtATime(() => new Promise<void>((resolve) => void ends.push(resolve)));
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
