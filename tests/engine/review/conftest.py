"""A finished delegation, and an editor."""

from __future__ import annotations

import pytest
from numbered_lines import LINES, RESULT
from open_documents import Window
from saved_state import made_once, tmp_path

__all__ = ["made_once", "tmp_path"]


@pytest.fixture
def window(project, made_once):
    """A project with a finished delegation, and an editor."""
    project.id = made_once("window", lambda: number_lines(project))
    project.caller = Window(project.top)
    return project


def number_lines(project):
    project.write("text.txt", LINES)
    project.write("more.txt", LINES)
    project.write("old.txt", "old\n")
    project.write("run.sh", "echo\na\nb\n")
    project.commit()
    project.program(
        "editor",
        f"""
        import os
        pathlib.Path("text.txt").write_text({RESULT!r})
        pathlib.Path("more.txt").write_text({RESULT!r})
        pathlib.Path("new.txt").write_text("new\\n")
        pathlib.Path("old.txt").unlink()
        pathlib.Path("run.sh").write_text("echo 2\\na\\nb\\n")
        os.chmod("run.sh", 0o755)
        say(type="result", ok=True)
        """,
    )
    return project.run("implement", "text.txt", task="Number them.", delegator="editor").id
