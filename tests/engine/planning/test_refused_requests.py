"""Test that a parameter without an effect is refused by name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.engine.planning.plan import Plan, plan
from understudy.frontends.cli import app
from understudy.frontends.cli.calls import workspace_trust
from understudy.frontends.cli.output import output
from understudy.git.base import capture
from understudy.model.delegation.delegations import StartParams
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    (top / "a.py").write_text("x = 1\ny = 2\n")
    (top / "cut.py").write_text("x = 1\ny = 2")
    caller = TerminalCaller(top)
    echo = {"name": "echo", "tool": "generic", "launch": {"command": ["/bin/cat", "{promptFile}"]}}
    method_table.call("delegators/create", {"delegator": echo, "scope": "user"}, caller)
    return top


def preview(project: Path, **params: Any) -> str:
    found: str = method_table.call(
        "delegations/preview", {"delegator": "echo", "task": "x", **params}, TerminalCaller(project)
    ).prompt
    return found


def lines(first: int, last: int, character: int = 0) -> dict[str, Any]:
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": character}}


@pytest.mark.parametrize(("named", "noted"), [("services", True), (".", False), (None, False)])
def test_a_folder_of_the_workspace_is_not_named_as_the_workspace_silently(
    project: Path, named: str | None, *, noted: bool
) -> None:
    (project / "services").mkdir()
    params = StartParams(
        recipe="tests", files=[str(project / "a.py")], workspace=None if named is None else str(project / named)
    )
    notes = plan(params, {}, project, only_look=True).draft.notes
    whole = [f"The workspace is the whole repository {project}: services is a folder of it."]
    assert notes == (whole if noted else [])


@pytest.mark.parametrize("recipe", ["implement", "ask", "docs"])
def test_a_target_is_for_recipes_that_write_one_file(project: Path, recipe: str) -> None:
    with pytest.raises(UnderstudyError, match=f"`target` has no effect on the recipe '{recipe}'") as refused:
        preview(project, recipe=recipe, target=str(project / "b.py"))
    assert (refused.value.kind, refused.value.parameter) == (ErrorKind.INVALID_PARAMS, "target")
    assert "`b.py`" in preview(project, recipe="write", target=str(project / "b.py"))


@pytest.mark.parametrize(
    ("file", "first", "last", "good"),
    [
        ("a.py", 0, 1, True),
        ("a.py", 1, 2, True),
        ("a.py", 1, 3, False),
        ("a.py", 2, 2, False),
        ("a.py", 0, 999, False),
        ("cut.py", 1, 1, True),
        ("cut.py", 1, 2, False),
    ],
)
def test_a_range_is_inside_of_its_file(project: Path, file: str, first: int, last: int, good: bool) -> None:
    params = {"recipe": "explain", "files": [str(project / file)], "range": lines(first, last)}
    if good:
        assert f"# Selected: lines {first + 1} to {last + 1}" in preview(project, **params)
        return
    with pytest.raises(UnderstudyError, match=f"`range` ends at line {last + 1}, but {file} has 2 lines") as refused:
        preview(project, **params)
    assert refused.value.parameter == "range"
    unsaved = [{"uri": (project / file).as_uri(), "text": "z\n" * 2000}]
    assert "# Selected" in preview(project, **params, buffers=unsaved)


def test_the_preview_of_the_ghostwriter_shows_no_prompt_because_it_reads_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = {"recipe": "tests", "files": [str(project / "a.py")]}
    found = method_table.call("delegations/preview", {**params, "delegator": "ghostwriter"}, TerminalCaller(project))
    assert (found.prompt, found.tokens, [file.path for file in found.files]) == ("", 0, ["a.py"])
    output.preview(found, as_json=False)
    assert "No prompt is sent" in capsys.readouterr().out
    assert preview(project, **params)
    then = {**params, "delegator": "ghostwriter", "fallback": ["echo"]}
    assert preview(project, **then), "the one that takes over would get it"


def test_a_range_needs_a_file(project: Path) -> None:
    with pytest.raises(UnderstudyError, match="no file is named"):
        preview(project, recipe="explain", range=lines(0, 0))


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        ("two.ty", "two.ty is not a file.", "Did you mean two.txt?"),
        ("inner/Deep.PY", "inner/Deep.PY is not a file.", "Did you mean inner/deep.py?"),
        ("elsewhere/deep.py", "elsewhere/deep.py is not a file.", "Name files that exist."),
        ("iner/deep.py", "iner/deep.py is not a file.", "Did you mean inner/deep.py?"),
        ("inner/two.txt/deep.py", "deep.py is not a file.", "Name files that exist."),
        ("inner", "inner is a folder.", "Name files in it."),
    ],
)
def test_a_missing_file_is_answered_with_the_one_that_is_meant(
    project: Path, named: str, message: str, hint: str
) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "deep.py").touch()
    (project / "two.txt").touch()
    with pytest.raises(UnderstudyError, match=re.escape(message)) as refused:
        preview(project, recipe="explain", files=[str(project / named)])
    assert refused.value.hint == hint


def test_a_request_without_anything_to_work_on_starts_nothing(project: Path) -> None:
    caller = TerminalCaller(project)
    params = {"recipe": "implement", "delegator": "echo", "workspace": str(project)}
    method_table.call("workspace/trust", {"workspace": str(project), "trusted": True}, caller)
    with pytest.raises(UnderstudyError, match="There is nothing for the recipe 'implement' to work on") as refused:
        method_table.call("delegations/start", params, caller)
    assert refused.value.kind is ErrorKind.INPUT_EMPTY
    assert not method_table.call("delegations/list", {}, caller).delegations


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("/", "a folder of the operating system"),
        ("/etc", "a folder of the operating system"),
        ("home", "your home folder"),
        ("", "above your home folder"),
        ("home/state", "the folder in which Understudy keeps its own files"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_wide_folder_without_git_is_not_copied(own_home: Path, tmp_path: Path, folder: str, what: str) -> None:
    wide = tmp_path / folder
    with pytest.raises(UnderstudyError, match=f"is {what}, and not a git repository") as refused:
        preview(wide, recipe="implement", workspace=str(wide))
    assert refused.value.kind is ErrorKind.BASE_UNAVAILABLE
    narrow = own_home / "scripts"
    narrow.mkdir()
    assert preview(narrow, recipe="implement", workspace=str(narrow))


@pytest.fixture
def large(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a trusted folder without git that counts as large, and with an environment that does not count."""
    monkeypatch.setattr(capture, "LARGE_FILES", 3)
    top = tmp_path / "large"
    (top / ".venv").mkdir(parents=True)
    for name in ("a.py", "b.txt", "c.txt", ".venv/pyvenv.cfg", ".venv/one", ".venv/two"):
        (top / name).write_text("x = 1\n")
    method_table.call("workspace/trust", {"workspace": str(top), "trusted": True}, TerminalCaller(top))
    return top


def test_a_large_folder_without_git_is_copied_only_on_request(large: Path) -> None:
    def planned(**options: Any) -> Plan:
        return plan(StartParams(recipe="tests", files=[str(large / "a.py")], **options), {}, large)

    assert planned()
    (large / "d.txt").write_text("")
    with pytest.raises(UnderstudyError, match="is not a git repository, and it is large: over 3 files") as refused:
        planned()
    assert (refused.value.kind, refused.value.parameter) == (ErrorKind.BASE_UNAVAILABLE, "whole_folder")
    assert planned(whole_folder=True)
    (large / ".gitignore").write_text(".venv/\n[cd].txt\n")
    assert planned(), "what is ignored is not copied"
    (large / "e.txt").write_text("")
    with pytest.raises(UnderstudyError, match="over 3 files"):
        planned()
    subprocess.run(["git", "init", "-q"], cwd=large, check=True)
    assert planned()


def test_a_large_folder_is_asked_about_and_trust_is_not_the_answer(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (large / "d.txt").write_text("")
    monkeypatch.chdir(large)
    started: list[Any] = []
    call = workspace_trust.call

    def recorded(method: str, /, **params: Any) -> Any:
        if method != "delegations/start":
            return call(method, **params)
        started.append(params)
        return plan(
            StartParams(recipe="tests", files=params["files"], whole_folder=params.get("wholeFolder")), {}, large
        )

    monkeypatch.setattr(workspace_trust, "call", recorded)
    arguments = ["start", "tests", "a.py", "--detach", "--trust"]
    refused = CliRunner().invoke(app.group, arguments, standalone_mode=False)
    assert isinstance(refused.exception, UnderstudyError)
    assert "--whole-folder" in (refused.exception.hint or "")
    monkeypatch.setattr(workspace_trust, "can_ask", lambda: True)
    asked = CliRunner().invoke(app.group, arguments, standalone_mode=False, input="n\n")
    assert "over 3 files would be copied for each delegation.\nCopy the whole folder? [y/N]: n" in asked.output
    assert isinstance(asked.exception, UnderstudyError)
    assert [params.get("wholeFolder") for params in started] == [None, None]
    CliRunner().invoke(app.group, arguments, standalone_mode=False, input="y\n")
    assert started[-1]["wholeFolder"] is True


def test_a_file_that_the_ghostwriter_cannot_read_is_refused_before_anything_is_recorded(large: Path) -> None:
    (large / "d.txt").write_text("")
    with pytest.raises(UnderstudyError, match=r"b\.txt is not a file that ghostwriter can work on") as refused:
        plan(StartParams(recipe="tests", files=[str(large / "b.txt")], delegator="ghostwriter"), {}, large)
    assert refused.value.kind is ErrorKind.INVALID_PARAMS


@pytest.mark.parametrize("task", [None, "", " \n"])
def test_a_file_alone_does_not_say_what_to_implement(project: Path, task: str | None) -> None:
    file = str(project / "a.py")
    with pytest.raises(UnderstudyError, match="needs a task, and none is described") as refused:
        preview(project, recipe="implement", files=[file], task=task)
    assert "-t 'what to do'" in str(refused.value.hint)
    for described in ({"contextFiles": [str(project / "a.py")]}, {"range": lines(0, 1)}, {"input": "x"}):
        assert preview(project, recipe="implement", files=[file], task=task, **described)


def test_a_recipe_that_nothing_can_run_says_why_once(project: Path) -> None:
    caller = TerminalCaller(project)
    method_table.call("delegators/delete", {"name": "echo"}, caller)
    with pytest.raises(UnderstudyError) as refused:
        method_table.call("delegations/preview", {"recipe": "implement", "task": "x"}, caller)
    assert refused.value.message == (
        "No delegator is configured, and the ghostwriter cannot run the recipe 'implement'."
    )
    assert refused.value.hint == "Add one with `understudy delegators add`."
