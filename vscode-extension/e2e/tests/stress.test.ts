/** Many delegations in the queue, and a run that crashes with a secret on its lips. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

const VIEW = "Delegations";
const TOKEN = "a-token-that-nobody-may-read-1234";

describe("many delegations", () => {
  const names = Array.from({ length: 12 }, (_, number) => `shop/part_${number}.py`);
  const files = Object.fromEntries(names.map((name) => [name, "ONE = 1\n"]));

  it(
    "wait in the queue with their position, are counted once, and are cancelled together",
    inCode({ delegators: ["slow"], files, configuration: { "config.toml": "[limits]\nslots = 1\n" } }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "slow");
      vs.world.understudy("start", "tests", "shop/prices.py", "--delegator", "slow", "--detach");
      await until(() => vs.world.delegations()[0]?.state === "running", "one runs");
      vs.world.understudy("start", "tests", ...names, "--each", "--delegator", "slow", "--detach");
      const row = await vs.waitForRow(VIEW, "Batch of 12");
      await until(async () => /0 of 12 done/.test(await row.innerText()), "none is done");
      await vs.waitForRow(VIEW, "Now13");
      assert.equal(await vs.badge(), "", "what waits in the queue needs nothing from the user");
      await row.click();
      await vs.page.keyboard.press("ArrowRight");
      await vs.waitForRow(VIEW, "Queued");
      // The status bar names the one that runs.
      await vs.statusItem(/prices\.py · .*and 12 more/).waitFor();
      assert.equal((await vs.statusBar()).filter((item) => item.includes("Write tests")).length, 1);
      await vs.shotInThemes("1 queue");
      await vs.rowAction(VIEW, "Batch of 12", "Cancel All");
      await until(
        () => vs.world.delegations().filter(({ verdict }) => verdict === "cancelled").length === 12,
        "what waits is cancelled",
      );
      await vs.waitForRow(VIEW, "Now1");
      assert.deepEqual(await vs.notifications(), []);
      vs.world.release();
      await vs.waitForRow(VIEW, "To Review");
    }),
  );
});

describe("a crashing program", () => {
  const leaky = `name = "leaky"
tool = "generic"

[launch]
command = ["sh", "-c", 'echo "I use $SHOP_TOKEN."; echo "OSError: $SHOP_TOKEN is refused" >&2; exit 3']

[env]
SHOP_TOKEN = { from_env = "SHOP_TOKEN" }
`;

  it(
    "is explained with the texts of the command line, without its secret",
    inCode(
      {
        file: "shop/prices.py",
        environment: { SHOP_TOKEN: TOKEN },
        configuration: { "config.toml": '[defaults]\ndelegator = "leaky"\n', "delegators/leaky.toml": leaky },
      },
      async (vs) => {
        await vs.openContainer();
        await vs.waitForRow("Delegators", "leaky");
        await vs.editor("prices.py").click();
        await vs.command("Understudy: Delegate Tests for This File");
        await vs.notification("exited with code 3").waitFor();
        const [{ error }] = vs.world.delegations();
        assert.match(error.message, /exited with code 3: OSError: <secret:SHOP_TOKEN> is refused/);
        const told = (await vs.notifications()).join();
        assert.ok(told.includes(error.message), told);
        await vs.waitForRow(VIEW, "Failed");
        const page = vs.webview();
        await vs.pressUntil(vs.row(VIEW, "Failed"), page.getByText(error.message).first());
        await page.getByText("I use <secret:SHOP_TOKEN>.").waitFor();
        // The verdict can also be read while the row shows its buttons.
        assert.match(await vs.selectedRow(VIEW), /Failed/);
        const shown = [told, await page.locator("body").innerText(), ...(await vs.rowLabels(VIEW))];
        await vs.shot("1 failed");
        await vs.notificationAction("exited with code 3", "Show Log");
        await vs.waitForText("is refused");
        shown.push(await vs.editorText());
        await vs.shot("2 log");
        await vs.rowAction(VIEW, "Failed", "Retry");
        await until(() => vs.world.delegations().length === 2, "it is started again");
        for (const text of shown) assert.ok(!text.includes(TOKEN), text);
      },
    ),
  );
});
