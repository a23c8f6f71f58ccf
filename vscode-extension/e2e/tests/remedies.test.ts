/** What is missing for a result, and the button that gets it. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("what is missing", () => {
  it(
    "is shown by the diagnostics with a button, after which they look again",
    inCode({ delegators: ["quick"], file: "shop/prices.py" }, async (vs) => {
      const ignored = path.join(vs.world.repository, ".gitignore");
      vs.world.write({
        ".gitignore": `${fs.readFileSync(ignored, "utf8")}node_modules\n`,
        "package.json": '{ "devDependencies": { "vitest": "3" } }\n',
        "node_modules/vitest/package.json": "{}\n",
      });
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
      await vs.command("Understudy: Run Diagnostics");
      const page = vs.webview().locator("body");
      const link = page.getByRole("button", { name: "Link node_modules" });
      await link.first().waitFor();
      assert.doesNotMatch(await page.innerText(), /understudy [a-z]|\.toml/, "no line to type");
      await vs.shot("1 what is missing");
      await link.first().click();
      await link.first().waitFor({ state: "detached" });
      const file = path.join(vs.world.repository, ".understudy", "worktrees.toml");
      await until(() => fs.readFileSync(file, "utf8").includes('"node_modules"'), "worktrees link to the folder");
      await vs.theme("Dark High Contrast");
      await vs.shot("2 linked");
    }),
  );
});
