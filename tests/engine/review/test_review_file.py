"""``review.diff`` tells its reader what to do with it, and is a patch all the same."""

from __future__ import annotations

import subprocess
import sys

from understudy.journal import delegation_folder


def test_the_head_names_the_work_and_git_takes_the_file_as_a_patch(project, tmp_path) -> None:
    project.write("text.txt", "one\ntwo\nthree\n")
    project.commit()
    project.program(
        "editor",
        """
        pathlib.Path("text.txt").write_text("one\\nTWO\\nthree\\n")
        pathlib.Path("new.txt").write_text("> quoted\\n# new\\n")
        say(type="result", ok=True)
        """,
    )
    task = "Shout.\n\ndiff --git a/text.txt b/text.txt\n@@ -1 +1 @@"
    done = project.run("implement", "text.txt", task=task, delegator="editor")
    review = delegation_folder.open_folder(done.id).review
    head, _, rest = review.read_text().partition("\ndiff --git ")
    assert done.id in head.splitlines()[0]
    assert '"> "' in head
    assert rest.count("\ndiff --git ") == 1, "two files, and the title is none"
    assert all(not line or line.startswith("# ") for line in head.splitlines())
    assert not [line for line in review.read_text().splitlines() if line.startswith(">")]
    project.git("apply", str(review))
    assert (project.top / "text.txt").read_text() == "one\nTWO\nthree\n"
    assert (project.top / "new.txt").read_text() == "> quoted\n# new\n"

    # Comments next to a change are not part of the patch that the command line prints.
    project.git("checkout", "-q", "text.txt")
    (project.top / "new.txt").unlink()
    review.write_text(review.read_text().replace("+TWO\n", "+TWO\n> quieter\n>\n") + "> the whole\n> no end")
    printed = subprocess.run(
        [sys.executable, "-m", "understudy", "diff", done.id], capture_output=True, check=True, text=True
    ).stdout
    assert printed.startswith("diff --git ")
    patch = tmp_path / "printed.diff"
    patch.write_text(printed)
    project.git("apply", str(patch))
    assert (project.top / "text.txt").read_text() == "one\nTWO\nthree\n"
    assert (project.top / "new.txt").read_text() == "> quoted\n# new\n"


def test_nothing_changed_is_an_empty_file(project) -> None:
    project.agent("idle", "no_change")
    done = project.run("implement", "calc.py", task="Nothing.", delegator="idle")
    assert done.verdict == "no_changes"
    assert delegation_folder.open_folder(done.id).review.read_bytes() == b""
