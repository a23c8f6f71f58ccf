/** The walkthrough, and the page of the extension with its README. */
import assert from "node:assert/strict";
import type { Locator } from "playwright-core";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("the walkthrough", () => {
  it(
    "has five steps with pictures",
    inCode({ delegators: ["quick"], file: "shop/prices.py", viewport: { width: 1600, height: 900 } }, async (vs) => {
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
      await vs.command("Welcome: Open Walkthrough...");
      await vs.pick("Get Started with Understudy");
      const page = vs.page.locator(".gettingStartedContainer");
      const steps = page.locator(".getting-started-step");
      await until(async () => (await steps.count()) === 5, "there are five steps");
      await until(
        async () => (await steps.nth(0).locator(".codicon.complete").count()) === 1,
        "that the engine runs already is seen",
      );
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
      // An image without a source could not be loaded.
      const pictures = vs.webview().locator("img");
      assert.equal(await pictures.evaluateAll((all) => all.filter((one) => !(one as HTMLImageElement).src).length), 0);
      await vs.shot("7 page");
    }),
  );

  it(
    "completes steps that are done, not steps that were only opened",
    inCode({ sidecar: false, file: "shop/prices.py" }, async (vs) => {
      const page = vs.page.locator(".gettingStartedContainer");
      const step = (number: number): Locator => page.locator(".getting-started-step").nth(number);
      const ticked = async (): Promise<number[]> => {
        const all = await page.locator(".getting-started-step").all();
        const done = await Promise.all(all.map((one) => one.locator(".codicon.complete").count()));
        return done.flatMap((count, number) => (count > 0 ? [number] : []));
      };
      const press = async (number: number): Promise<void> => {
        await step(number).click();
        await step(number).locator(".monaco-button").first().click();
      };
      await vs.statusItem("Understudy").locator(".codicon-circle-slash").waitFor();
      await vs.command("Welcome: Open Walkthrough...");
      await vs.pick("Get Started with Understudy");

      // There is no engine: the button installs it.
      await press(0);
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
      await until(async () => (await ticked()).includes(0), "the engine is ready");
      assert.deepEqual(await ticked(), [0]);
      await vs.shot("1 ready");

      await press(1);
      await vs.webview().getByRole("searchbox").waitFor();
      await vs.closeEditor();
      vs.world.add("slow");
      await until(async () => (await ticked()).includes(1), "there is a delegator");

      await press(2);
      await vs.step("Try It");
      await vs.escape();
      assert.deepEqual(await ticked(), [0, 1], "nothing was delegated");
      await press(2);
      await vs.shot("2 which file");
      await vs.pick("prices.py");
      // Ghostwriter works on the user's own file, and its transcript is shown.
      await vs.webview().getByText("Attempt 1: ghostwriter").waitFor();
      await vs.shot("3 first run");
      await vs.command("Welcome: Open Walkthrough...");
      await vs.pick("Get Started with Understudy");
      await until(async () => (await ticked()).includes(2), "something was delegated");
      await until(async () => (await ticked()).includes(3), "its transcript was opened");
      assert.deepEqual(await ticked(), [0, 1, 2, 3]);

      await vs.waitForRow("Delegations", "To Review");
      await press(4);
      await vs.pick("prices.py");
      await vs.waitForRow("Review", "Verified");
      await vs.command("Welcome: Open Walkthrough...");
      await vs.pick("Get Started with Understudy");
      await until(async () => (await ticked()).length === 5, "everything is done");
      await vs.shot("4 done");
    }),
  );
});
