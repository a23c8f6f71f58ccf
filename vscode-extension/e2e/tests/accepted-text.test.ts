/** Accepted text in open files: it is saved, and a change that the user reverts in the editor is pending again. */
import assert from "node:assert/strict";
import { until } from "../driver/environment.ts";
import { counts, reviewing, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";
import type { Workbench } from "../driver/workbench.ts";

const MINE = "tests/test_prices.py";

const CHECK = { "checks/tests.toml": 'name = "tests"\nargv = ["{python}", "-m", "pytest", "-q"]\n' };

/** How many steps of the user the random test takes. */
const STEPS = Number(process.env["UNDERSTUDY_STEPS"] ?? 20);

/** A line of each change of the file, in the order of the changes. */
const LINES = ["import pytest", "def test_more_than_everything_is_refused"];

/** The states of the changes of the file, as the command line lists them. */
const listed = (vs: Workbench, id: string): string[] =>
  vs.world
    .understudy("review", id, "--list")
    .files.find(({ path }: { path: string }) => path === MINE)
    .hunks.map(({ state }: { state: string }) => state);

const onDisk = (vs: Workbench): string => vs.world.read(MINE) ?? "";

describe("accepted text", () => {
  it(
    "is saved in a file that was saved; Ctrl+Z makes it pending, redo and another accept accept it",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      await until(() => onDisk(vs).includes("import pytest"), "it is saved");
      await vs.shot("1 accepted and saved");

      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.goTo(1);
      await vs.page.keyboard.press("Control+z");
      await until(async () => !(await vs.editorText()).includes("import pytest"), "the text is gone");
      await until(() => counts(vs, id) === "3 0 0", "it is pending");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);
      await until(
        async () => (await vs.rowLabels(VIEW)).some((label) => /pending, import pytest/.test(label)),
        "its row is pending",
      );
      await vs.shot("2 reverted");

      await vs.page.keyboard.press("Control+y");
      await vs.waitForText("import pytest");
      await until(() => counts(vs, id) === "2 1 0", "redo accepts it");
      await vs.page.keyboard.press("Control+z");
      await until(() => counts(vs, id) === "3 0 0", "it is pending again");
      await vs.save();
      await until(() => !onDisk(vs).includes("import pytest"), "the file is without it");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);

      await vs.editor("Review: ").click();
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted once more");
      await until(() => onDisk(vs).split("import pytest").length === 2, "it is there once");
      await vs.rowAction(VIEW, "import pytest", "Undo");
      await until(() => counts(vs, id) === "3 0 0", "it is undone");
      await until(() => !onDisk(vs).includes("import pytest"), "what was saved before an undo is saved after it");
    }),
  );

  it(
    "stays unsaved beside unsaved text of the user, and is pending if that is reverted or not saved",
    inCode({ delegators: ["quick"], file: MINE }, async (vs) => {
      await vs.statusItem("Understudy").waitFor();
      await vs.goTo(6);
      await vs.type("# mine\n");
      await vs.waitForText("# mine");
      const id = await reviewing(vs);
      await vs.barAction("Change 1 of 3", "Accept");
      await vs.notification("Not saved, because you have unsaved changes there: tests/test_prices.py").waitFor();
      await until(() => counts(vs, id) === "2 1 0", "it is accepted");
      assert.doesNotMatch(onDisk(vs), /mine|import pytest/);
      await vs.shot("1 not saved");

      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.command("File: Revert File");
      await until(() => counts(vs, id) === "3 0 0", "it is pending after Revert File");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);

      await vs.goTo(6);
      await vs.type("# mine\n");
      await vs.waitForText("# mine");
      await vs.editor("Review: ").click();
      await vs.barAction("Change 1 of 3", "Accept");
      await until(() => counts(vs, id) === "2 1 0", "it is accepted again");
      await vs.editor("test_prices.py").click();
      await vs.waitForText("import pytest");
      await vs.closeEditor();
      await vs.dialog().waitFor();
      await vs.shot("2 closing");
      await vs.dialogAction("Don't Save");
      await until(() => counts(vs, id) === "3 0 0", "it is pending after Don't Save");
      assert.deepEqual(listed(vs, id), ["pending", "pending"]);
      assert.doesNotMatch(onDisk(vs), /mine|import pytest/);
      await vs.shot("3 pending");
    }),
  );

  it(
    "is checked in the working copy and committed alone, with its evidence",
    inCode({ delegators: ["quick"], file: MINE, configuration: CHECK }, async (vs) => {
      vs.world.write({ "shop/mine.py": "MINE = 1\n" });
      await vs.statusItem("Understudy").waitFor();
      await reviewing(vs);
      await vs.command("Understudy: Accept All Changes");
      await vs.notification("Review complete: 3 accepted").waitFor();
      await vs.shot("1 accepted");
      await vs.notificationAction("Review complete: 3 accepted", "Run My Checks");
      await vs.notification("Your working copy: tests passes (5 passed").waitFor();
      await vs.shot("2 checked");
      await vs.notificationAction("Your working copy", "Commit…");
      await vs.dialog().waitFor();
      await vs.shot("3 message");
      await vs.dialogAction("Commit");
      await vs.notification("Committed").waitFor();
      assert.deepEqual(vs.world.git("show", "--format=%an", "--name-only").trim().split("\n"), [
        "Test",
        "",
        MINE,
        "tests/test_prices_more.py",
      ]);
      assert.match(vs.world.git("log", "-1", "--format=%b"), /^Verdict: verified: /mu);
      assert.match(vs.world.git("status", "--porcelain"), /^\?\? shop\/mine\.py$/mu);
    }),
  );

  it(
    "is in the file or in an editor that shows it, and never twice, whatever is done in whatever order",
    inCode({ delegators: ["quick"], closed: true }, async (vs) => {
      const seed = Number(process.env["UNDERSTUDY_SEED"] ?? Date.now() % 1_000_000);
      console.log(`      seed: UNDERSTUDY_SEED=${seed}`);
      const random = randomNumbers(seed);
      const choose = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)]!;
      const { world } = vs;
      // Two results with the same changes: what one has brought, the other one must not bring again.
      const ids = [1, 2].map(
        () => world.understudy("start", "tests", "shop/prices.py", "--delegator", "quick", "--detach").id as string,
      );
      await until(() => world.delegations().every(({ state }) => state === "finished"), "both results are there");
      await vs.open();
      await vs.openFile(MINE);
      await vs.statusItem("Understudy").locator(".codicon-check").waitFor();

      const show = async (): Promise<void> => {
        if ((await vs.tabs()).some((tab) => tab.includes("test_prices.py"))) await vs.editor("test_prices.py").click();
        else await vs.openFile(MINE);
        await vs.waitForText("test_no_discount");
        await vs.page.locator(".editor-group-container.active .view-line").first().click();
      };
      const isDirty = async (): Promise<boolean> =>
        (await vs.page.locator('.tab.dirty[data-resource-name="test_prices.py"]').count()) > 0;
      /** What the user sees of the file; its end is in view, because it is short. */
      const shown = async (): Promise<string> => {
        if (!(await isDirty())) return onDisk(vs);
        await vs.editor("test_prices.py").click();
        await vs.page.locator('.tab.active[data-resource-name="test_prices.py"]').waitFor();
        return vs.editorText();
      };
      /** What is wrong now; empty if nothing. */
      const wrong = async (): Promise<string> => {
        const text = await shown();
        const states = ids.map((id) => listed(vs, id));
        const found = LINES.flatMap((line, change) => {
          const times = text.split(line).length - 1;
          if (times > 1) return [`“${line}” is there ${times} times`];
          const lost = ids.filter((_, one) => states[one]?.[change] === "accepted" && times === 0);
          return lost.map((id) => `“${line}” is accepted in ${id}, and nowhere`);
        });
        return found.join("; ");
      };
      const byCommand = async (verb: string, id: string): Promise<void> => {
        const pending = world
          .understudy("review", id, "--list")
          .files.flatMap((file: { path: string; hunks: any[] }) => (file.path === MINE ? file.hunks : []));
        const hunk = choose<{ id: string }>(pending);
        const argv = verb === "undo" ? [id] : [id, `${MINE}:${hunk.id}`];
        try {
          world.understudy(verb, ...argv);
        } catch {
          // Refused: there is nothing to undo, it is accepted already, or it has a conflict.
        }
        if ((await vs.editor("test_prices.py").count()) === 0 || (await isDirty())) return;
        // Until the editor has read the file again, it would refuse to save it; its watcher may take long.
        await show();
        await vs.command("File: Revert File");
        await until(
          async () => (await vs.editorText()).trimEnd() === onDisk(vs).trimEnd(),
          "the editor shows the file",
        );
      };
      let lines = 0;
      const steps: Record<string, () => Promise<void>> = {
        "accept in the view": async () => {
          await vs.openContainer();
          if ((await vs.rows(VIEW).count()) === 0) {
            await vs.command("Understudy: Review…");
            await vs.pick("prices.py");
            await vs.waitForRow(VIEW, "test_more_tha");
          }
          const row = choose(["import pytest", "test_more_tha"]); // a decided row has less room for its text
          if ((await vs.rowLabels(VIEW)).some((label) => label.includes(row) && label.includes("pending")))
            await vs.rowAction(VIEW, row, "Accept");
        },
        // An editor with unsaved text and a file that another program changes are a conflict of the user's.
        "accept by command": async () => {
          if (!(await isDirty())) await byCommand("accept", choose(ids));
        },
        "reject by command": async () => byCommand("reject", choose(ids)),
        "undo by command": async () => {
          if (!(await isDirty())) await byCommand("undo", choose(ids));
        },
        "Ctrl+Z": async () => {
          await show();
          await vs.page.keyboard.press("Control+z");
        },
        "Ctrl+Y": async () => {
          await show();
          await vs.page.keyboard.press("Control+y");
        },
        edit: async () => {
          await show();
          if (lines >= 6) return;
          lines += 1;
          const blank = (await vs.editorText()).split("\n").flatMap((line, at) => (line.trim() === "" ? [at + 1] : []));
          await vs.goTo(choose(blank));
          await vs.type(`# line ${lines}\n`);
          await vs.waitForText(`# line ${lines}`);
        },
        save: async () => {
          await show();
          await vs.save();
          await until(async () => !(await isDirty()), "it is saved");
        },
        "close without saving": async () => {
          await show();
          await vs.palette(">View: Close Editor");
          await vs.pick("View: Close Editor", ">View: Close Editor");
          if (await isDirty()) await vs.dialogAction("Don't Save");
          await until(async () => (await vs.editor("test_prices.py").count()) === 0, "it is closed");
        },
        reload: async () => {
          await vs.reload();
          await vs.statusItem("Understudy").locator(".codicon-check").waitFor();
        },
      };
      const done: string[] = [];
      for (let step = 0; step < STEPS; step += 1) {
        // A reload takes as long as ten other steps.
        const name = choose([...Object.keys(steps).slice(0, -1), ...Object.keys(steps).slice(0, -1), "reload"]);
        done.push(name);
        try {
          await steps[name]?.();
          await until(async () => (await wrong()) === "", "nothing accepted is nowhere", 20_000);
        } catch (error) {
          throw new Error(`UNDERSTUDY_SEED=${seed}: ${await wrong()} after ${done.join(", ")}`, { cause: error });
        }
      }
      await vs.shot("end");
    }),
  );
});

/** Numbers from 0 to 1 that only depend on the seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
