/** Add Delegator, by keyboard. */
import assert from "node:assert/strict";
import { until } from "../rig/base.ts";
import { inCode } from "../rig/test.ts";

describe("Add Delegator", () => {
  it(
    "makes one of an agent on this machine, by keyboard",
    inCode({ delegators: ["careful"] }, async (vs) => {
      await vs.openContainer();
      await vs.waitForRow("Delegators", "careful");
      await vs.command("Understudy: Add Delegator");
      await vs.step("Add Delegator");
      await vs.quickRows().filter({ hasText: "Claude Code" }).first().waitFor();
      await vs.shot("1 source");
      await vs.pick("Claude Code");
      await vs.quickRows().filter({ hasText: "own default" }).first().waitFor();
      await vs.shot("2 model");
      await vs.back();
      await vs.quickRows().filter({ hasText: "Claude Code" }).first().waitFor();
      await vs.pick("Claude Code");
      await vs.pick("claude-opus-4-6");
      await vs.quickRows().filter({ hasText: "Continue" }).first().waitFor();
      await vs.shot("3 options");
      await vs.pick("Continue");
      await vs.quickInput().fill("careful");
      await until(async () => (await vs.quickMessage()).includes("of this name"), "a name that is taken is refused");
      await vs.shot("4 name taken");
      await vs.answer("thorough");
      await vs.shot("5 scope");
      await vs.page.keyboard.press("Enter");
      await vs.waitForRow("Delegators", "thorough");
      await vs.notification("thorough").waitFor();
      await vs.shot("6 saved");
      const made = vs.world
        .understudy("delegators", "list")
        .delegators.find((one: any) => one.delegator.name === "thorough");
      assert.equal(made?.delegator.tool, "claude");
      assert.equal(made?.delegator.model, "claude-opus-4-6");
    }),
  );
});
