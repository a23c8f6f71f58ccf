"""Test that a base contains the text in the editor, and that a worktree gets the declared extra files."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from project_python import project_python

from understudy.model.errors import UnderstudyError

DONE = "say(type='result', ok=True, text='done')"


def tree(done):
    return Path(done.worktree)


@pytest.fixture
def quick(project):
    project.program("quick", DONE)
    return project


def test_staged_unstaged_untracked_and_unsaved_texts_are_carried(quick):
    quick.write("staged.py", "staged = 1\n")
    quick.git("add", "staged.py")
    quick.write("calc.py", "unstaged = 1\n")
    quick.write("untracked.py", "untracked = 1\n")
    before = quick.fingerprint()
    uri = (quick.top / "unsaved.py").as_uri()
    done = quick.run("implement", delegator="quick", task="x", buffers=[{"uri": uri, "text": "unsaved = 1\n"}])
    assert done.verdict == "no_changes"
    for name in ("staged", "untracked", "unsaved"):
        assert (tree(done) / f"{name}.py").read_text() == f"{name} = 1\n"
    assert (tree(done) / "calc.py").read_text() == "unstaged = 1\n"
    assert quick.fingerprint() == before
    assert not (quick.top / "unsaved.py").exists()


def test_the_base_can_be_head(quick):
    quick.write("calc.py", "unstaged = 1\n")
    done = quick.run("implement", delegator="quick", task="x", base="head")
    assert "def add" in (tree(done) / "calc.py").read_text()
    lost = quick.run("implement", delegator="quick", task="x", base="no-such-revision")
    assert (lost.verdict, lost.error.kind) == ("failed", "base_unavailable")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_an_unsaved_text_keeps_the_files_encoding(quick, encoding):
    (quick.top / "words.txt").write_bytes("Straße\r\n".encode(encoding))
    done = quick.run(
        "implement",
        delegator="quick",
        task="x",
        buffers=[{"uri": (quick.top / "words.txt").as_uri(), "text": "Grüße\r\nStraße\r\n"}],
    )
    assert (tree(done) / "words.txt").read_bytes() == "Grüße\r\nStraße\r\n".encode(encoding)


def test_a_text_that_conflicts_is_reported_and_not_carried_over(quick):
    (quick.top / "words.txt").write_bytes("Straße\n".encode("latin-1"))
    done = quick.run(
        "implement", delegator="quick", task="x", buffers=[{"uri": (quick.top / "words.txt").as_uri(), "text": "→\n"}]
    )
    assert (tree(done) / "words.txt").read_bytes() == "Straße\n".encode("latin-1")
    assert any("words.txt" in getattr(event, "text", "") for event in quick.events(done.id))


def test_a_folder_that_is_not_a_repository(quick, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a\n")
    quick.call("workspace/trust", workspace=str(plain), trusted=True)
    quick.program("adder", "pathlib.Path('b.txt').write_text('b\\n')\n" + DONE)
    done = quick.finish(
        quick.call("delegations/start", recipe="implement", task="x", delegator="adder", workspace=str(plain)).id
    )
    assert [stat.path for stat in done.result.files] == ["b.txt"]
    assert sorted(path.name for path in plain.iterdir()) == ["a.txt"]


def test_no_commit_yet(quick, tmp_path):
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    subprocess.run(["git", "init", "-q", str(fresh)], check=True)
    (fresh / "a.txt").write_text("a\n")
    quick.call("workspace/trust", workspace=str(fresh), trusted=True)
    done = quick.finish(
        quick.call("delegations/start", recipe="implement", task="x", delegator="quick", workspace=str(fresh)).id
    )
    assert done.verdict == "no_changes"
    assert (tree(done) / "a.txt").read_text() == "a\n"


def test_a_subfolder_and_the_top_level_are_one_workspace(quick):
    quick.write("pkg/mod.py", "x = 1\n")
    result = quick.call(
        "delegations/start", recipe="implement", task="x", delegator="quick", files=[str(quick.top / "pkg/mod.py")]
    )
    done = quick.finish(result.id)
    assert done.workspace == str(quick.top)
    listed = quick.call("delegations/list", workspace=str(quick.top / "pkg")).delegations
    assert [item.id for item in listed] == [done.id]


def test_bootstrap_copies_links_and_sets_up(quick):
    quick.write(".worktreeinclude", "secrets/*.env\n")
    quick.write(".gitignore", "secrets/\nnode_modules/\nbuilt\n")
    quick.commit()
    quick.write("secrets/test.env", "A=1\n")
    quick.write("secrets/other.txt", "no\n")
    quick.trust()
    quick.write("node_modules/m/index.js", "1\n")
    quick.settings(f"""
        [environment]
        python = "{project_python()}"

        [worktrees]
        link = ["node_modules"]
        setup = ["{sys.executable}", "-c", "import pathlib; pathlib.Path('built').write_text('yes')"]
    """)
    done = quick.run("implement", delegator="quick", task="x")
    assert done.verdict == "no_changes", (done.verdict, done.error)
    assert (tree(done) / "secrets/test.env").read_text() == "A=1\n"
    assert not (tree(done) / "secrets/other.txt").exists(), "nothing ignored is copied unless it is listed"
    assert os.readlink(tree(done) / "node_modules") == str(quick.top / "node_modules")
    assert (tree(done) / "built").read_text() == "yes"


def test_a_failing_setup_reports_its_output(quick):
    quick.settings(f"""
        [worktrees]
        setup = ["{sys.executable}", "-c", "import sys; sys.exit('no network today')"]
    """)
    done = quick.run("implement", delegator="quick", task="x")
    assert done.verdict == "failed"
    assert done.error.kind == "tool_crashed"
    assert "no network today" in done.error.message


def test_nothing_runs_in_a_workspace_that_is_not_trusted(quick):
    quick.call("workspace/trust", workspace=str(quick.top), trusted=False)
    with pytest.raises(UnderstudyError) as caught:
        quick.start("implement", delegator="quick", task="x")
    assert caught.value.kind == "untrusted_workspace"
    assert caught.value.hint.endswith(f": understudy trust {shlex.quote(str(quick.top))}")
    assert quick.call("delegations/list").delegations == []
    with pytest.raises(UnderstudyError) as caught:
        quick.start("tests", "no_such_file.py", delegator="quick")
    assert "no_such_file.py is not a file" in caught.value.message, "trust is not asked for what cannot start"


def test_a_change_of_what_was_trusted_asks_again(quick):
    assert quick.call("workspace/trust", workspace=str(quick.top)).trusted
    quick.write(".understudy/config.toml", '[[checks]]\nname = "evil"\nargv = ["touch", "/tmp/x"]\n')
    answer = quick.call("workspace/trust", workspace=str(quick.top))
    assert not answer.trusted
    assert answer.changed
    with pytest.raises(UnderstudyError) as caught:
        quick.start("implement", delegator="quick", task="x")
    assert caught.value.kind == "untrusted_workspace"


def test_files_of_two_workspaces_are_refused(quick, tmp_path):
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    with pytest.raises(UnderstudyError) as caught:
        quick.start("tests", "calc.py", str(other), delegator="quick")
    assert caught.value.kind == "path_escape"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"recipe": "testz"}, "unknown_recipe"),
        ({"delegator": "quik"}, "unknown_delegator"),
        ({"checks": ["nope"]}, "unknown_check"),
        ({"route": "cheap"}, "invalid_params"),
        ({"files": ["relative.py"]}, "invalid_params"),
        ({"files": ["file:///etc/hostname"]}, "path_escape"),
        ({"limits": {"totalSecond": 1}}, "invalid_params"),
    ],
)
def test_invalid_decisions_are_refused_by_name(quick, params, kind):
    asked = {"recipe": "implement", "task": "x", "delegator": "quick", "workspace": str(quick.top)} | params
    with pytest.raises(UnderstudyError) as caught:
        quick.call("delegations/start", **asked)
    assert caught.value.kind == kind
    assert caught.value.message
    assert caught.value.hint


def test_the_same_idempotency_key_is_the_same_delegation(quick):
    first = quick.start("implement", delegator="quick", task="x", idempotencyKey="k1")
    again = quick.start("implement", delegator="quick", task="x", idempotencyKey="k1")
    assert first == again
    quick.finish(first)


def test_a_preview_sends_nothing_and_shows_everything(quick):
    shown = quick.call(
        "delegations/preview", recipe="tests", files=[str(quick.top / "calc.py")], delegator="quick", task="be thorough"
    )
    assert "be thorough" in shown.prompt
    assert "calc.py" in shown.prompt
    assert shown.explain.delegator == "quick"
    assert quick.call("delegations/list").delegations == []


def test_the_prompt_of_the_run_is_what_was_shown(quick):
    quick.program("echo", "say(type='result', ok=True, text=pathlib.Path(sys.argv[1]).read_text())")
    file = quick.config / "delegators" / "echo.toml"
    file.write_text(file.read_text().replace('.py"]', '.py", "{promptFile}"]'))
    shown = quick.call("delegations/preview", recipe="ask", task="why?", delegator="echo", workspace=str(quick.top))
    assert quick.run("ask", delegator="echo", task="why?").result.text.strip() == shown.prompt.strip()
