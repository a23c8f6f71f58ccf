import { expect, it } from "vitest";
import { Desk } from "../src/review/desk.ts";
import { GoldenSidecar, result } from "./support/golden.ts";

it("keeps the results that were looked at last, and always the one under review", async () => {
  const following = new Set<string>();
  const asker = new GoldenSidecar()
    .answer("understudy/delegations/diff", result("understudy/delegations/diff", "delegations-diff.flagged"))
    .answer("understudy/delegations/file", { text: "a\n", mode: "100644" });
  const desk = new Desk({
    asker,
    store: {
      follow: (id) => {
        following.add(id);
        return Promise.resolve({ dispose: () => void following.delete(id) });
      },
    },
  });
  const forgotten: string[] = [];
  desk.onDidForget((id) => forgotten.push(id));

  await desk.review("reviewed");
  for (let number = 1; number <= 20; number += 1) await desk.result(`one-${number}`);
  expect(following.size).toBe(8);
  expect(following).toContain("reviewed");
  expect(following).toContain("one-20");
  expect(forgotten).toContain("one-1");

  // One that is asked for again stays for longer than those that came after it.
  await desk.result("one-14");
  for (let number = 21; number <= 26; number += 1) await desk.result(`one-${number}`);
  expect(following).toContain("one-14");
  await desk.result("one-27");
  expect(following).not.toContain("one-14");

  // What was forgotten is read anew, not missed.
  expect((await desk.result("one-1")).files.length).toBeGreaterThan(0);
  desk.dispose();
  expect(following.size).toBe(0);
});
