import { expect, it } from "vitest";
import { OpenResults } from "../../src/review/openResults.ts";
import { GoldenSidecar, result } from "../support/golden.ts";

it("keeps the most recently used results, and always the one under review", async () => {
  const following = new Set<string>();
  const requester = new GoldenSidecar()
    .answer("understudy/delegations/diff", result("understudy/delegations/diff", "delegations-diff.flagged"))
    .answer("understudy/delegations/file", { text: "a\n", mode: "100644" });
  const openResults = new OpenResults({
    requester,
    store: {
      follow: (id) => {
        following.add(id);
        return Promise.resolve({ dispose: () => void following.delete(id) });
      },
    },
  });
  const forgotten: string[] = [];
  openResults.onDidForget((id) => forgotten.push(id));

  await openResults.review("reviewed");
  for (let number = 1; number <= 20; number += 1) await openResults.result(`one-${number}`);
  expect(following.size).toBe(8);
  expect(following).toContain("reviewed");
  expect(following).toContain("one-20");
  expect(forgotten).toContain("one-1");

  // A result that is requested again is kept longer than those requested after it.
  await openResults.result("one-14");
  for (let number = 21; number <= 26; number += 1) await openResults.result(`one-${number}`);
  expect(following).toContain("one-14");
  await openResults.result("one-27");
  expect(following).not.toContain("one-14");

  // A dropped result is read again.
  expect((await openResults.result("one-1")).files.length).toBeGreaterThan(0);
  openResults.dispose();
  expect(following.size).toBe(0);
});
