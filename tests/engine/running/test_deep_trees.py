"""Test trees that are nested deeper than programs expect: they are reported, delivered and removed like any other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from understudy.engine.retention import discard
from understudy.journal import delegation_folder
from understudy.model.delegation.events import Note
from understudy.model.verdicts import Verdict

DEEP = """
    pathlib.Path("calc.py").write_text("VALUE = 1\\n")
    for _ in range(1500):
        os.mkdir({name!r})
        os.chdir({name!r})
    pathlib.Path("bottom.txt").write_text("here\\n")
    say(type="result", ok=True, text="Done.")
"""


@pytest.fixture
def deep_project(project) -> Iterator[object]:
    """Leave no folders when a test fails: pytest cannot delete them, but `rm` can."""
    yield project
    root = delegation_folder.state_root()
    subprocess.run(["rm", "-rf", "--", root / "worktrees", root / "trash"], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "rules", "delivered"),
    [
        pytest.param("d", "", ["calc.py", "d/" * 1500 + "bottom.txt"], id="deep"),
        pytest.param("d" * 20, "", ["calc.py"], id="too deep", marks=pytest.mark.heavy),  # no such path can be opened
        pytest.param("d" * 20, "d*/\n", ["calc.py"], id="ignored", marks=pytest.mark.heavy),
    ],
)
def test_a_tree_of_1500_levels_is_delivered_and_removed(deep_project, name, rules, delivered):
    project = deep_project
    project.write("notes.txt", "Notes.\n")
    project.write(".gitignore", "__pycache__/\n" + rules)
    project.commit()
    project.program("deep", DEEP.format(name=name))
    done = project.run("implement", delegator="deep", task="x")
    assert done.verdict is Verdict.UNVERIFIED, done
    assert [one.path for one in project.call("delegations/diff", id=done.id).files] == delivered
    left_out = [event.text for event in project.events(done.id) if isinstance(event, Note) and "left out" in event.text]
    assert len(left_out) == (1 if len(name) > 1 and not rules else 0), left_out
    assert all(len(text) < 1000 for text in left_out)

    root = delegation_folder.state_root()
    project.call("delegations/discard", id=done.id)
    discard.empty_trash(root)
    assert not os.listdir(root / "trash")
    assert not list((root / "worktrees").glob("*/*/project"))
