/** The sidebar, empty and with all kinds of delegators. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

const BY_DEFAULT = { "config.toml": '[defaults]\ndelegator = "quick"\n' };

describe("the sidebar", () => {
  it(
    "shows how to start if there are no delegators",
    inCode({}, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.statusItem("Understudy").waitFor();
      await vs.shotInThemes("empty");
    }),
  );

  it(
    "lists delegators with their state, shows problems and opens their location @smoke",
    inCode(
      {
        delegators: ["quick", "careful", "broken"],
        configuration: { "config.toml": '[[delegators]]\nname = "typo"\ntool = "generic"\nmodle = "x"\n' },
      },
      async (vs) => {
        await vs.openContainer();
        await vs.waitForRow("Delegators", "careful");
        assert.deepEqual(
          (await vs.rowLabels("Delegators")).filter((label) => label === ""),
          [],
          "every row is spoken",
        );
        await vs.shotInThemes("delegators");
        await vs.waitForRow("Delegators", "config.toml:4");
        await vs.pressUntil(vs.row("Delegators", "config.toml:4"), vs.editor("config.toml"));
        await until(async () => (await vs.statusBar()).some((item) => item.startsWith("Ln 4,")), "line 4 is shown");
        await vs.shot("problem");
      },
    ),
  );

  it(
    "shows changes of another program by itself",
    inCode({}, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      vs.world.add("quick");
      await vs.waitForRow("Delegators", "quick");
    }),
  );
});

describe("an untrusted workspace", () => {
  it(
    "runs nothing",
    inCode({ trusted: false, delegators: ["quick"], file: "shop/prices.py" }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      await vs.shot("untrusted");
      await vs.page.locator(".monaco-editor .view-lines").click();
      await vs.codeAction("tests for this file");
      await vs.dialog().filter({ hasText: "Restricted Mode" }).waitFor();
      await vs.shot("refused");
      assert.deepEqual(await vs.notifications(), [], "no message stays after the answer");
      await vs.dialogAction("Manage Workspace Trust");
      await vs.page.getByText("You are in Restricted Mode").waitFor();
      await vs.page.keyboard.press("Escape");
      const started = vs.world.processes().filter(({ argv }) => argv.includes("worker"));
      assert.deepEqual(started, []);
      assert.deepEqual(vs.world.delegations(), []);
    }),
  );

  it(
    "runs no program of the workspace @smoke",
    inCode(
      {
        trusted: false,
        sidecar: false,
        file: "shop/prices.py",
        files: { ".venv/bin/understudy": '#!/bin/sh\ntouch "$HOME/ran-what-was-not-trusted"\n' },
      },
      async (vs) => {
        await vs.openContainer();
        await vs.welcome("Delegations").filter({ hasText: "not installed" }).waitFor();
        assert.equal(vs.world.has("ran-what-was-not-trusted"), false);
        await vs.shot("not installed");
      },
    ),
  );
});

describe("a trusted workspace", () => {
  it(
    "asks again only when what it allows has changed",
    inCode({ delegators: ["quick"], agreed: false, file: "shop/prices.py", configuration: BY_DEFAULT }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      const trusted = (): boolean => {
        try {
          return vs.world.understudy("trust", "--status").trusted;
        } catch {
          return false; // reported by its exit code
        }
      };
      await until(trusted, "the editor's trust is recorded");
      assert.deepEqual(await vs.notifications(), []);
      assert.equal(await vs.dialog().count(), 0);
      const theirs = 'name = "theirs"\ntool = "generic"\n\n[launch]\ncommand = ["./agent.sh", "--fast"]\n';
      vs.world.write({ ".understudy/delegators/theirs.toml": theirs });
      await vs.dialog().filter({ hasText: "has changed" }).waitFor();
      await vs.shot("changed");
      assert.match(await vs.dialog().innerText(), /runs \.\/agent\.sh --fast/);
      assert.equal(trusted(), false);
      await vs.dialogAction("Cancel");
      // What needs trust asks again, once, and goes on after the answer.
      await vs.command("Understudy: Delegate Tests for This File");
      await vs.dialog().filter({ hasText: "has changed" }).waitFor();
      assert.deepEqual(await vs.notifications(), []);
      await vs.shot("asked again");
      await vs.dialogAction("Trust");
      await until(trusted, "the new state is recorded");
      await until(() => vs.world.delegations().length === 1, "it is started");
      assert.deepEqual(await vs.notifications(), []);
    }),
  );
});

describe("the sidecar", () => {
  it(
    "is restarted when it is killed, and reports that @smoke",
    inCode({ delegators: ["quick"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      const before = await vs.killSidecar();
      const after = await until(() => vs.world.sidecars().find(({ pid }) => pid !== before), "another sidecar runs");
      assert.notEqual(after.pid, before);
      vs.world.add("slow");
      await vs.waitForRow("Delegators", "slow");
      await vs.shot("came back");
    }),
  );

  it(
    "is explained by the status item",
    inCode({}, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      await vs.statusItem("Understudy").click();
      await vs.step("Understudy");
      await until(async () => (await vs.quickRowTexts()).some((row) => row.includes("Restart")), "the menu is filled");
      await vs.shot("status");
    }),
  );

  it(
    "stops with its window and starts with the next one",
    inCode({}, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "ghostwriter");
      const [before] = vs.world.sidecars();
      await vs.reload();
      await vs.waitForRow("Delegators", "ghostwriter");
      await until(() => vs.world.sidecars().length === 1, "there is one sidecar, no more");
      assert.notEqual(vs.world.sidecars()[0]?.pid, before?.pid);
    }),
  );

  it(
    "makes a delegator the default for a recipe, and shows it in its row",
    inCode({ delegators: ["quick", "liar"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "quick");
      await vs.rowMenu("Delegators", "quick", "Use by Default For…");
      await vs.step("Use quick by Default For");
      await vs.quickRows().filter({ hasText: "Write tests" }).first().click();
      await vs.shot("1 recipes");
      await vs.accept(true);
      await vs.quickRows().filter({ hasText: "In your user configuration" }).first().waitFor();
      await vs.accept();
      const row = await vs.waitForRow("Delegators", "default for tests");
      assert.match(await row.innerText(), /quick/);
      await vs.shot("2 row");
      assert.deepEqual(vs.world.understudy("delegators", "default"), { recipes: { tests: "quick" }, delegator: null });
    }),
  );
});
