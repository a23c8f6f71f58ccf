/** The page of a transcript by itself in Chromium, with the scrolling of a real browser. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { ARTIFACTS, EXTENSION, until } from "../driver/environment.ts";
import { inChromium } from "../driver/test.ts";

const DELEGATION = {
  id: "20261121-004512-k3f9q",
  title: "Write tests: prices.py",
  recipe: "tests",
  state: "running",
  reservations: [],
  workspace: "/w",
  delegator: "quick",
  attempts: [],
  checks: [],
  review: { pending: 0, accepted: 0, rejected: 0 },
  confined: false,
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, turns: 0, toolCalls: 0 }, // prettier-ignore
  costKnown: false,
  askedBy: { frontend: "lsp", depth: 0 },
  startedAt: "2026-11-21T00:45:12.345Z",
  lastSeq: 0,
};
const ANSWER = `## What I did

Added **two** tests to \`test_prices.py\`, see [pytest](https://docs.pytest.org).

1. the edge
2. the total
   - with a discount

\`\`\`diff
@@ -1,2 +1,2 @@
-assert total == 3
+assert total == 4
\`\`\`

| test | result |
|---|---|
| edge | passed |
`;

/** Open the page that the extension contains, with a server that has `history`. */
async function open(page: Page, history: readonly object[], state: object = {}): Promise<void> {
  const asset = (name: string): string => fs.readFileSync(path.join(EXTENSION, "dist", name), "utf8");
  await page.setContent(`<!DOCTYPE html><style>${asset("transcriptPage.css")}</style><body></body>`);
  await page.evaluate(
    ({ delegation, history }) => {
      const scope = window as any;
      scope.seq = 0;
      scope.tell = (events: readonly object[]) => {
        const numbered = events.map((event) => ({ at: delegation.startedAt, attempt: 1, seq: ++scope.seq, ...event }));
        window.postMessage({ method: "understudy/event", params: { id: delegation.id, events: numbered } }, "*");
      };
      scope.acquireVsCodeApi = () => ({
        getState: () => undefined,
        setState: () => {},
        postMessage: ({ id, method }: { id?: number; method: string }) => {
          if (id === undefined) return;
          if (method === "understudy/delegations/subscribe" && scope.seq === 0) scope.tell(history);
          const start = { delegation: delegation.id, instructable: true, translations: {} };
          const result = method === "page/start" ? start : method.endsWith("/get") ? delegation : {};
          window.postMessage({ id, result }, "*");
        },
      });
    },
    { delegation: { ...DELEGATION, ...state }, history },
  );
  await page.addScriptTag({ content: asset("transcriptPage.js") });
  await page.locator("[role=log][aria-busy=false]").waitFor();
}

const steps = (count: number): object[] => Array.from({ length: count }, (_, n) => ({ type: "note", level: "info", text: `Step ${n}.` })); // prettier-ignore
const toEnd = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollHeight - window.scrollY - window.innerHeight);
const jump = (page: Page) => page.getByRole("button", { name: "Jump to End" });

/** Bursts of events, in between of which the page is drawn, or not. */
async function burst(page: Page): Promise<void> {
  await page.evaluate(async () => {
    for (let round = 0; round < 60; round += 1) {
      const count = 1 + ((round * 7) % 23);
      const notes = Array.from({ length: count }, () => ({ type: "note", level: "info", text: `Burst ${round}. `.repeat(20) }));
      (window as any).tell([...notes, { type: "text", text: "More. ".repeat(30) }]);
      await new Promise((resolve) => setTimeout(resolve, (round * 13) % 40));
    }
  }); // prettier-ignore
}

describe("the page of a transcript", () => {
  it(
    "follows bursts, a new size and a server that comes back, until the reader scrolls up",
    inChromium(async (page) => {
      await open(page, steps(300));
      await burst(page);
      await until(async () => (await toEnd(page)) < 2, "it is at the end");
      assert.equal(await jump(page).isVisible(), false);
      await page.setViewportSize({ width: 500, height: 400 });
      await page.evaluate(() => window.postMessage({ method: "understudy/changed", params: { collections: [] } }, "*"));
      await burst(page);
      await until(async () => (await toEnd(page)) < 2, "it is at the end in a small window");
      assert.equal(await jump(page).isVisible(), false);
      // By wheel, key and scrollbar: growing does not move the reader.
      const ways = [
        () => page.mouse.wheel(0, -600),
        () => page.keyboard.press("PageUp"),
        () => page.evaluate(() => window.scrollBy(0, -300)), // as a drag of the scrollbar does
      ];
      await page.mouse.move(200, 250);
      for (const scroll of ways) {
        await scroll();
        await jump(page).waitFor();
        await burst(page);
        assert.ok((await toEnd(page)) > 200, "the reader stays");
        await jump(page).click();
        await until(async () => (await toEnd(page)) < 2, "it follows again");
        await burst(page);
        await until(async () => (await toEnd(page)) < 2, "it still follows");
      }
      await page.mouse.wheel(0, -600);
      await jump(page).waitFor();
      await until(async () => {
        await page.keyboard.press("End");
        return jump(page).isHidden();
      }, "the reader is at the end");
      await burst(page);
      await until(async () => (await toEnd(page)) < 2, "who goes back to the end follows it");
    }),
  );

  it(
    "stays usable with 100,000 events",
    inChromium(async (page) => {
      await open(page, steps(100_000));
      const taken = await page.evaluate(async () => {
        const start = performance.now();
        (window as any).tell([{ type: "text", text: "The end." }]);
        while (!document.body.textContent.includes("The end.")) await new Promise(requestAnimationFrame);
        return performance.now() - start;
      });
      assert.ok(taken < 1_000, `${taken} ms`);
      assert.ok((await page.locator(".row").count()) <= 400);
      await until(async () => (await toEnd(page)) < 2, "it is at the end");
    }),
  );

  it(
    "shows Markdown, cards, diffs, icons and counts",
    inChromium(async (page) => {
      const call = { type: "tool_call", callId: "1", name: "Edit", title: "Edit tests/test_prices.py" };
      const input = { old_string: "assert total == 3", new_string: "assert total == 4" };
      await open(page, [
        { type: "note", level: "info", text: "Uses the project's Python." },
        { ...call, input },
        { type: "tool_result", callId: "1", ok: true, output: "1 line changed" },
        { ...call, callId: "2", name: "Bash", title: "pytest -q", input: {} },
        { type: "tool_result", callId: "2", ok: false, output: "1 failed" },
        { ...call, callId: "3", name: "Bash", title: "pytest -q tests", input: {} },
        { type: "text", text: ANSWER },
        { type: "check_started", name: "pytest" },
        { type: "phase", text: "pytest: tried 4 of 40 small changes", count: { of: "small_changes", done: 4, total: 40, secondsLeft: 30 } }, // prettier-ignore
      ]);
      await page.getByText("tried 4 of 40 small changes, about 30 s left").waitFor();
      await page.locator("summary", { hasText: "Edit" }).click();
      await page.locator(".diff .removed", { hasText: "total == 3" }).first().waitFor();
      for (const scheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme: scheme });
        await page.screenshot({ path: path.join(ARTIFACTS, `transcript-page-${scheme}.png`), fullPage: true });
      }
    }),
  );
});
