/** The first thing that many see: the walkthrough, and the extension's page with its README. */
import assert from "node:assert/strict";
import { until } from "../rig/base.ts";
import { inCode } from "../rig/test.ts";

describe("the walkthrough", () => {
  it(
    "has five steps with pictures",
    inCode({ delegators: ["quick"], file: "shop/prices.py", viewport: { width: 1600, height: 900 } }, async (vs) => {
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
      await vs.command("Welcome: Open Walkthrough...");
      await vs.pick("Get started with Understudy");
      const page = vs.page.locator(".gettingStartedContainer");
      const steps = page.locator(".getting-started-step");
      await until(async () => (await steps.count()) === 5, "there are five steps");
      await vs.shot("1 engine");
      for (const [number, name] of [
        [1, "delegator"],
        [2, "delegate"],
        [3, "follow"],
        [4, "review"],
      ] as const) {
        await steps.nth(number).click();
        const picture = page.locator(".getting-started-media img").first();
        await until(
          async () => picture.evaluate((image) => (image as HTMLImageElement).naturalWidth > 0),
          `the picture of ${name} is loaded`,
        );
        assert.ok(
          ((await picture.getAttribute("alt")) ?? "").length > 20,
          `${name} is described to who does not see it`,
        );
        await vs.shot(`${number + 1} ${name}`);
      }
      await vs.theme("Dark High Contrast");
      await vs.shot("6 high contrast");
      await vs.theme("Dark Modern");
      await vs.command("Extensions: Show Installed Extensions");
      await vs.page.locator(".extensions-list .monaco-list-row", { hasText: "Understudy" }).first().click();
      await vs.page.locator(".extension-editor .name", { hasText: "Understudy" }).waitFor();
      await vs.webview().locator("h1", { hasText: "Understudy for VS Code" }).waitFor();
      await vs.shot("7 page");
    }),
  );
});
