/**
 * `review.diff`, in which other editors review, is an ordinary patch in VS Code: the extension has its own review.
 */
import assert from "node:assert/strict";
import path from "node:path";
import { textOf, until } from "../driver/environment.ts";
import { inCode } from "../driver/test.ts";

describe("review.diff", () => {
  it(
    "has no lenses, diagnostics or code actions of a review",
    inCode({ delegators: ["quick"], closed: true }, async (vs) => {
      const { world } = vs;
      const { id } = world.understudy("start", "tests", "shop/prices.py", "--delegator", "quick", "--detach");
      await until(() => world.understudy("show", id).state === "finished", "it is finished");
      const added = "+def test_more_than_everything_is_refused():";
      const patch = path.join(world.state, "delegations", id, "review.diff");
      await vs.open(path.relative(world.repository, patch));
      await vs.openContainer();
      await vs.waitForRow("Delegations", "To Review");
      const lines = textOf(patch).split("\n");
      await vs.waitForText(added);
      await vs.page.locator(".editor-group-container.active .monaco-editor .view-lines").first().click();
      await vs.goTo(lines.indexOf(added) + 1);
      // Nothing is offered while the sidecar is starting: wait for it.
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
      // The message disappears after some seconds, and is lost while the editor takes the focus.
      await until(async () => {
        await vs.page.keyboard.press("Control+.");
        await vs.page.getByText("No code actions available").first().waitFor({ timeout: 8_000 });
        return true;
      }, "the editor reports that there are no code actions");
      assert.equal(await vs.codeLens(/./).count(), 0);
      for (const severity of ["error", "warning", "info", "hint"] as const) {
        assert.equal(await vs.squiggles(severity).count(), 0, severity);
      }
      await vs.shot("patch");
    }),
  );
});
