/** Results with more than edited lines: renames, modes, links, binary files, line ends. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { until } from "../driver/environment.ts";
import { reviewing, scenario, scripted, VIEW } from "../driver/review.ts";
import { inCode } from "../driver/test.ts";

const LINES = "# Names\n\nFirst.\nSecond.\nThird.\nFourth.\nFifth.\n";

const sh = (text: string): object => ({ run: ["sh", "-c", text] });

/** In the order of their paths, as in git. */
const KINDS = [
  ["docs/new.md", "was docs/old.md", "the name"],
  ["docs/there.md", "was docs/moved.md", "3rd."],
  ["dos.txt", "", "2"],
  ["latest", "link", "shop/__init__.py"],
  ["link", "new link", "shop/prices.py"],
  ["media/logo.bin", "binary", "the whole file"],
  ["notes.txt", "", "two"],
  ["shop/empty.py", "new", "an empty file"],
  ["shop/gone.py", "deleted", "GONE = 1"],
  ["tests/test_new.py", "new", "def test_new():"],
  ["tools/both.sh", "", "now executable"],
  ["tools/run.sh", "now executable", "now executable"],
] as const;

describe("reviewing every kind of change", () => {
  it(
    "shows, accepts and undoes renames, modes, links, binary and empty files",
    inCode(
      {
        file: "tests/test_prices.py",
        viewport: { width: 1280, height: 2000 }, // all rows of the view are rendered
        configuration: scripted("kinds"),
        files: {
          "docs/old.md": LINES,
          "docs/moved.md": LINES.replaceAll("st", "ST"),
          "shop/gone.py": "GONE = 1\n",
          "tools/run.sh": "echo run\n",
          "tools/both.sh": "echo one\n",
          "media/logo.bin": "\0one\0",
          "notes.txt": "one\ntwo",
          "dos.txt": "one\r\ntwo\r\nthree\r\n",
          ...scenario(
            sh("mv docs/old.md docs/new.md; mv docs/moved.md docs/there.md; rm shop/gone.py; chmod +x tools/*.sh"),
            sh(
              "sed -i s/Third/3rd/ docs/there.md; sed -i s/one/two/ tools/both.sh; printf 'one\\ntwo\\nthree' > notes.txt",
            ),
            sh("printf 'one\\r\\n2\\r\\nthree\\r\\n' > dos.txt; : > shop/empty.py"),
            sh("ln -sfn shop/__init__.py latest; ln -s shop/prices.py link"),
            { write: "media/logo.bin", text: "\0two\0" },
            { write: "tests/test_new.py", text: "def test_new():\n    assert True\n" },
          ),
        },
      },
      async (vs) => {
        await vs.statusItem("Understudy").waitFor();
        const { repository } = vs.world;
        fs.symlinkSync("shop/prices.py", path.join(repository, "latest"));
        vs.world.git("add", "latest");
        vs.world.git("commit", "--quiet", "--message=A link");
        const id = await reviewing(vs, "kinds", "Unverified", false);
        await vs.waitForRow(VIEW, "an empty file");
        const rows = await vs.rowTexts(VIEW);
        for (const [name, word, change] of KINDS) {
          const at = rows.findIndex((row) => row.startsWith(path.basename(name)) && row.includes("pending"));
          assert.ok(at >= 0, name);
          assert.ok(rows[at]?.includes(word), `${rows[at]} has ${word}`);
          assert.ok(rows[at + 1]?.startsWith(change), `${rows[at + 1]} begins with ${change}`);
        }
        await vs.shot("1 begun");

        // Visit each change in a diff editor of its own; the multi-file diff stays open.
        await vs.viewAction(VIEW, "Next Pending Change");
        for (const [name, , change] of [...KINDS.slice(1), KINDS[0]]) {
          await until(async () => (await vs.selectedRow(VIEW)).startsWith(change), `it is at ${name}`);
          if (!["docs/there.md", "dos.txt"].includes(name)) await vs.shot(`2 ${name}`);
          if (name === "tools/both.sh") {
            await vs.viewAction(VIEW, "Next Pending Change");
            await until(async () => (await vs.selectedRow(VIEW)).startsWith("echo two"), "it is at its line");
          }
          await vs.viewAction(VIEW, "Next Pending Change");
        }
        assert.ok((await vs.tabs()).some((tab) => tab.startsWith("Review: Write tests")));

        await vs.viewAction(VIEW, "Accept All Changes");
        await vs.notification("Review complete: 13 accepted, 0 rejected").waitFor();
        await vs.shot("3 accepted");
        assert.equal(vs.world.read("docs/old.md"), undefined);
        assert.equal(vs.world.read("docs/new.md"), LINES);
        assert.equal(vs.world.read("docs/there.md"), LINES.replaceAll("st", "ST").replace("Third", "3rd"));
        assert.equal(vs.world.read("dos.txt"), "one\r\n2\r\nthree\r\n");
        assert.equal(fs.readlinkSync(path.join(repository, "latest")), "shop/__init__.py");
        assert.equal(fs.readlinkSync(path.join(repository, "link")), "shop/prices.py");
        assert.equal(vs.world.read("media/logo.bin"), "\0two\0");
        assert.equal(vs.world.read("notes.txt"), "one\ntwo\nthree");
        assert.equal(vs.world.read("shop/empty.py"), "");
        assert.equal(vs.world.read("shop/gone.py"), undefined);
        for (const name of ["run.sh", "both.sh"]) {
          assert.equal(fs.statSync(path.join(repository, "tools", name)).mode & 0o111, 0o111, name);
        }
        await vs.viewAction(VIEW, "Undo…");
        await vs.step("Undo");
        await vs.accept(); // the whole accept comes first
        await until(() => vs.world.git("status", "--short").trim() === "", "all is as it was");
        assert.equal(vs.world.understudy("show", id).review.pending, 13);
      },
    ),
  );

  it(
    "has every action in a narrow window, also on a deleted file, and sends comments on lines back",
    inCode(
      {
        viewport: { width: 900, height: 800 },
        configuration: scripted("narrow"),
        files: {
          "a_gone.py": "GONE = 1\n",
          ...scenario(sh("rm a_gone.py"), { write: "tests/test_new.py", text: "def test_new():\n    assert True\n" }),
        },
      },
      async (vs) => {
        const id = await reviewing(vs, "narrow", "Unverified");
        const verdict = vs.bar("Unverified");
        await verdict.waitFor();
        for (const word of ["Accept All", "Send Back…", "Evidence"]) await verdict.getByText(word).first().waitFor();
        await vs.shotInThemes("1 narrow");
        // Collapsed bars come back, and nothing else opens.
        const first = vs.bar("Change 1 of 2");
        await vs.barAction("Change 1 of 2", "Collapse");
        await first.waitFor({ state: "hidden" });
        await vs.pressUntil(vs.barSigns().first(), first);
        assert.equal(await vs.view("Comments").isVisible(), false);
        await vs.barAction("Change 1 of 2", "Reject");
        await until(() => vs.world.understudy("show", id).review.rejected === 1, "the deletion is rejected");
        await vs.page.keyboard.press("Alt+F5");
        await vs.bar("Change 2 of 2").waitFor();
        await vs.shot("2 decided");

        // A comment on a line goes along.
        await vs.page.locator(".editor-instance .view-line", { hasText: "def test_new" }).last().hover();
        const form = vs.page.locator(".review-widget .form-actions");
        await vs.pressUntil(vs.page.locator(".editor-instance .comment-range-glyph.line-hover").last(), form.first());
        await vs.type("Test what it returns.");
        await form.getByText("Add Comment").click();
        await vs.bar("Goes to the agent").waitFor();
        await vs.shot("3 comment");
        await vs.viewAction(VIEW, "Send Back");
        await vs.step("Send Back");
        assert.equal(await vs.quickInput().inputValue(), "tests/test_new.py:1: Test what it returns.");
        await vs.shot("4 send back");
      },
    ),
  );

  it(
    "accepts a binary file in the title of the review and of its own diff",
    inCode(
      {
        configuration: scripted("bytes"),
        files: { "media/logo.bin": "\0one\0", ...scenario({ write: "media/logo.bin", text: "\0two\0" }) },
      },
      async (vs) => {
        const id = await reviewing(vs, "bytes", "Unverified", false);
        const accept = "Accept All Changes in This File";
        await vs.editorAction(accept);
        await until(() => vs.world.read("media/logo.bin") === "\0two\0", "it is accepted");
        await vs.shot("1 review");
        await vs.clearNotifications();
        await vs.command("Understudy: Undo Last Accept");
        await until(() => vs.world.read("media/logo.bin") === "\0one\0", "it is as it was");
        await vs.page.getByText("Open Diff").press("Enter");
        await until(async () => (await vs.tabs()).some((tab) => tab.startsWith("logo.bin")), "its own diff is open");
        await vs.shot("2 own diff");
        await vs.editorAction(accept);
        await until(() => vs.world.understudy("show", id).review.accepted === 1, "it is accepted again");
        assert.equal(vs.world.read("media/logo.bin"), "\0two\0");
      },
    ),
  );

  it(
    "shows both sides of a conflict that cannot be merged line by line",
    inCode(
      {
        file: "tests/test_prices.py",
        configuration: scripted("bytes"),
        files: {
          "media/logo.bin": "\0one\0",
          "shop/old.py": "OLD = 1\n",
          ...scenario(
            { write: "media/logo.bin", text: "\0two\0" },
            { write: "shop/old.py", text: "OLD = 2\n" },
            { write: "tests/test_new.py", text: "def test_new():\n    assert True\n" },
          ),
        },
      },
      async (vs) => {
        await vs.statusItem("Understudy").waitFor();
        const id = await reviewing(vs, "bytes", "Unverified", false);
        const states = (): string[] =>
          vs.world.understudy("diff", id).files.flatMap((file: any) => file.hunks.map((hunk: any) => hunk.state));
        vs.world.write({ "media/logo.bin": "\0mine\0" });
        fs.rmSync(path.join(vs.world.repository, "shop/old.py"));
        await vs.viewAction(VIEW, "Accept All Changes");
        await vs.notification("has a conflict").waitFor();
        await vs.waitForRow(VIEW, "Conflict");
        await vs.shot("1 two conflicts");
        await vs.clearNotifications();

        // Both sides changed an image: the user has merged it elsewhere.
        await vs.rowAction(VIEW, "the whole file", "Resolve Conflict");
        await vs.notification("cannot be merged line by line").waitFor();
        await vs.editor("logo.bin: Result ↔ Yours").waitFor();
        await vs.shot("2 bytes");
        await vs.rowAction(VIEW, "the whole file", "Mark as Resolved");
        await until(() => states().join() === "accepted,pending,accepted", "it counts as accepted");
        // The rows are drawn again for it; a press just then would be lost.
        await until(
          async () => (await vs.rowTexts(VIEW)).some((row) => /the whole file.*accepted/.test(row)),
          "its row shows that",
        );
        assert.equal(vs.world.read("media/logo.bin"), "\0mine\0");

        // The user deleted a file and keeps it deleted.
        await vs.rowAction(VIEW, "OLD = 2", "Resolve Conflict");
        await vs.notification("old.py cannot be merged line by line").waitFor();
        await vs.shot("3 gone");
        await vs.rowAction(VIEW, "OLD = 2", "Reject Change");
        await until(() => states().join() === "accepted,rejected,accepted", "it is rejected");
        assert.equal(vs.world.read("shop/old.py"), undefined);
      },
    ),
  );
});
