import { describe, expect, it } from "vitest";
import { fold } from "../../src/state/fold.ts";
import { isMoney, sumOfMoney } from "../../src/state/money.ts";
import type { Delegation, Event } from "../../src/protocol.ts";
import { foldExamples, golden, result } from "../support/golden.ts";

const AT = "2026-11-21T00:45:12.345Z";
const DONE = result("understudy/delegations/get", "delegations-get.valid");

describe("fold", () => {
  it.each(foldExamples())("computes what the sidecar computes: $title", ({ before, steps }) => {
    let [now, expected]: [Delegation, object] = [before, before];
    expect(steps.length).toBeGreaterThan(0);
    for (const { event, changes } of steps) {
      now = fold(now, [event]).delegation;
      expected = Object.fromEntries(Object.entries({ ...expected, ...changes }).filter(([, value]) => value !== null));
      expect(now, JSON.stringify(event)).toStrictEqual(expected);
    }
    // A batch has the same result as its events.
    expect(
      fold(
        before,
        steps.map(({ event }) => event),
      ).delegation,
    ).toStrictEqual(now);
  });

  it("says when only the sidecar can fold", () => {
    const events = (golden("notification.event").params as unknown as { events: Event[] }).events;
    const stale = events.filter((event) => fold(DONE, [event]).stale);
    expect(stale.map(({ type }) => type)).toEqual(["unknown"]);
  });

  it("keeps a delegation with a damaged journal small", () => {
    const [attempt] = DONE.attempts;
    const [check] = DONE.checks;
    if (!attempt || !check) throw new Error("the example has an attempt and a check");
    const full: Delegation = {
      ...DONE,
      attempts: Array.from({ length: 1_000 }, (_, number) => ({ ...attempt, number })),
      checks: Array.from({ length: 1_000 }, (_, number) => ({ ...check, name: `check ${number}` })),
    };
    const { delegation: now } = fold(full, [
      { type: "started", seq: 22, at: AT, attempt: 1_000, delegator: "a", model: "", reason: "" },
      { ...check, type: "check_finished", seq: 23, at: AT, attempt: 1_000, name: "one more" },
    ]);
    expect(now.attempts).toHaveLength(1_000);
    expect(now.checks).toHaveLength(1_000);
  });

  it("does not change its input", () => {
    for (const { before, steps } of foldExamples()) {
      const copy = structuredClone(before);
      fold(
        before,
        steps.map(({ event }) => event),
      );
      expect(before).toEqual(copy);
    }
  });
});

describe("money", () => {
  it("is added without binary fractions, and rounded to 28 digits", () => {
    expect(sumOfMoney(["0.1", "0.2", "0.00"])).toBe("0.30");
    expect(sumOfMoney(["9999999999999999999999999999", "0.5"])).toBe("10000000000000000000000000000");
    expect(sumOfMoney(["9999999999999999999999999998", "0.5"])).toBe("9999999999999999999999999998");
    expect(sumOfMoney(["-0.01"])).toBe("-0.01");
    expect(sumOfMoney([])).toBeUndefined();
  });

  it("is never a huge exponent or a word", () => {
    for (const amount of ["1e999999", "1e30", "1e-30", "NaN", "Infinity", "much", "", " ", ".", "1e", "1".repeat(65)])
      expect(isMoney(amount)).toBe(false);
    for (const amount of ["1e29", "1e-29", ".5", "5.", "+1", "-2", "3_0"]) expect(isMoney(amount)).toBe(true);
  });
});
