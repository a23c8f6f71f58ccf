import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { PageRequests } from "../../src/base/pageRequests.ts";

describe("PageRequests", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const made = () => {
    const sent: { id: number; method: string; params: object }[] = [];
    return { sent, requests: new PageRequests((message) => sent.push(message), 1000) };
  };

  it("gives each answer to its request, in any order", async () => {
    const { sent, requests } = made();
    const first = requests.request("page/start", {});
    const second = requests.request("page/send", { a: 1 });
    expect(sent).toEqual([
      { id: 1, method: "page/start", params: {} },
      { id: 2, method: "page/send", params: { a: 1 } },
    ]);
    requests.answer({ id: 2, result: "two" });
    requests.answer({ id: 1, result: undefined });
    await expect(second).resolves.toBe("two");
    await expect(first).resolves.toBeUndefined();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("rejects with the message and the hint of an error", async () => {
    const { requests } = made();
    const asked = requests.request("page/start", {});
    requests.answer({ id: 1, error: { message: "It is full.", hint: "Make room." } });
    await expect(asked).rejects.toThrow("It is full. Make room.");
  });

  it("rejects after the time limit, and drops a later answer", async () => {
    const { requests } = made();
    const asked = requests.request("page/start", {});
    vi.advanceTimersByTime(1000);
    await expect(asked).rejects.toThrow("Understudy did not answer.");
    requests.answer({ id: 1, result: "late" });
  });
});
