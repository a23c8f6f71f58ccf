/** Creates the pictures of the README and the walkthrough; `npm run screenshots` copies them to media/screenshots. */
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("pictures", () => {
  it(
    "readme",
    inCode(
      {
        delegators: ["quick", "careful", "slow"],
        file: "shop/prices.py",
        configuration: { "config.toml": '[defaults]\ndelegator = "quick"\n' },
        settings: {
          "editor.fontSize": 13,
          "editor.minimap.enabled": false,
          "workbench.colorTheme": "Default Dark Modern",
        },
        viewport: { width: 1160, height: 720 },
      },
      async (vs) => {
        await vs.openContainer();
        await vs.waitForRow("Delegators", "careful");
        await vs.command("Understudy: Add Delegator");
        await vs.webview().getByRole("button", { name: "Add: Claude Code" }).waitFor();
        await vs.shot("add-delegator");
        await vs.closeEditor();

        await vs.editorMenu();
        await vs.shot("delegate");
        await vs.page.keyboard.press("Escape");

        vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "slow", "--detach");
        await until(() => vs.world.delegations()[0]?.state === "running", "one runs");
        vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "careful", "--detach");
        await vs.waitForRow("Delegations", "needing attention");
        const { id } = vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "quick", "--detach");
        await until(() => vs.world.understudy("show", id).state === "finished", "one is finished");
        await vs.waitForRow("Delegations", "To Review");
        await vs.clearNotifications();
        await vs.row("Delegations", "careful").click();
        await vs.webview().getByRole("button", { name: "Allow" }).first().waitFor(); // the place of the answer
        await vs.shot("transcript");

        await vs.command("Understudy: Review…");
        await vs.pick("prices.py");
        await vs.waitForRow("Review", "Verified");
        await vs.bar("Change 1 of 3").waitFor();
        await vs.clearNotifications();
        await vs.shot("review");
        vs.world.release();
      },
    ),
  );
});
