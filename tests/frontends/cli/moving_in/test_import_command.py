"""Test ``delegators import`` and ``delegators export``: what they show, ask, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from understudy.frontends.cli import app
from understudy.model.errors import ErrorKind, UnderstudyError

PROFILE = '{"name": "Reader", "provider": "claude", "x_operator": {"launch_config": {"yolo": true}}, "n": null}\r\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "p.json").write_bytes(PROFILE.encode())
    monkeypatch.chdir(folder)
    return folder


def invoked(*arguments: str, answers: str = "") -> Result:
    result = CliRunner().invoke(app.group, ["delegators", *arguments], input=answers, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def names() -> list[str]:
    found = json.loads(invoked("list", "--json").stdout)["delegators"]
    return [one["delegator"]["name"] for one in found if one["scope"] == "user"]


def test_it_shows_and_asks_before_it_writes(place: Path) -> None:
    with pytest.raises(click.Abort):
        invoked("import", "p.json", answers="n\n")
    assert names() == []
    result = invoked("import", "p.json", answers="y\n")
    assert '+tool = "claude"' in result.stdout
    assert "launch.yolo (" in result.stderr
    assert "Imported reader." in result.stdout
    assert names() == ["reader"]
    assert "is from this profile" in invoked("import", "p.json", "--yes").stdout


def test_a_dry_run_writes_nothing(place: Path) -> None:
    invoked("import", "p.json", "--dry-run")
    assert json.loads(invoked("import", "p.json", "--dry-run", "--json").stdout)["written"] is False
    assert names() == []
    with pytest.raises(click.UsageError):
        invoked("import", "p.json", "--json")


def test_a_folder_is_imported_as_far_as_it_can_be(place: Path) -> None:
    (place / "bad.json").write_text('{"a": 1,\n"a": 2}')
    (place / "other.json").write_text('{"name": "other", "provider": "codex"}')
    with pytest.raises(UnderstudyError) as caught:
        invoked("import", ".", "--yes")
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert names() == ["other", "reader"]
    empty = place / "empty"
    empty.mkdir()
    for path, kind in (("empty", ErrorKind.INPUT_EMPTY), ("missing.json", ErrorKind.INVALID_PARAMS)):
        with pytest.raises(UnderstudyError) as caught:
            invoked("import", path, "--yes")
        assert caught.value.kind is kind


def test_an_export_has_the_original_bytes(place: Path) -> None:
    invoked("import", "p.json", "--yes", "--with-permissions")
    assert invoked("export", "reader").stdout_bytes == PROFILE.encode()
    invoked("export", "reader", "-o", "copy.json")
    assert (place / "copy.json").read_bytes() == PROFILE.encode()
    with pytest.raises(UnderstudyError) as caught:
        invoked("export", "reader", "-o", "copy.json")
    assert caught.value.kind is ErrorKind.TARGET_EXISTS
    invoked("update", "reader", "--model", "opus")
    invoked("export", "reader", "-o", "copy.json", "--force")
    assert json.loads((place / "copy.json").read_text()) == json.loads(PROFILE) | {"model": "opus"}
    assert json.loads(invoked("export", "reader", "--json").stdout)["leftOut"] == []


def test_only_a_workflow_has_several(place: Path) -> None:
    invoked("add", "one", "--tool", "claude")
    invoked("add", "two", "--tool", "codex")
    for arguments in (["one", "two"], ["one", "--task", "x"]):
        with pytest.raises(UnderstudyError) as caught:
            invoked("export", *arguments)
        assert caught.value.kind is ErrorKind.INVALID_PARAMS
    workflow = json.loads(invoked("export", "one", "two", "--format", "agnt", "--task", "x").stdout)
    assert [node["id"] for node in workflow["nodes"]] == ["one", "two"]
    with pytest.raises(UnderstudyError) as caught:
        invoked("export", "onee")
    assert caught.value.names == ["one"]
