"""The commands for schedules, as a user types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.engine.queueing import system_timer
from understudy.frontends.cli import app
from understudy.model.errors import UnderstudyError


@pytest.fixture
def repository(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    monkeypatch.chdir(top)
    return top


def run(*arguments: str, given: str = "") -> str:
    result = CliRunner().invoke(app.group, list(arguments), input=given, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_schedule_is_added_listed_paused_resumed_and_removed(repository: Path) -> None:
    added = run("schedules", "add", "nightly", "0 2 * * 1-5", "a.py", "--recipe", "tests", "-d", "cheap")
    assert "Added schedule nightly" in added
    assert "It starts next at " in added
    assert "The folder is not trusted" in added
    shown = run("schedules")
    assert "nightly  0 2 * * 1-5  tests a.py by cheap" in shown
    assert "is paused" in run("schedules", "pause", "nightly")
    assert "paused" in run("schedules", "list")
    assert "starts next at" in run("schedules", "resume", "nightly")
    [entry] = json.loads(run("schedules", "list", "--json"))["schedules"]
    assert (entry["schedule"]["workspace"], entry["editable"]) == (str(repository), True)
    assert "Removed nightly" in run("schedules", "remove", "nightly")
    assert json.loads(run("schedules", "list", "--json"))["schedules"] == []


def test_run_needs_a_name_or_due(repository: Path) -> None:
    assert run("schedules", "run", "--due") == ""
    with pytest.raises(click.UsageError, match="Name a schedule"):
        run("schedules", "run")


def test_install_shows_what_it_writes_and_writes_nothing_without_consent(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = tmp_path / "units" / "understudy.timer"
    monkeypatch.setattr(system_timer, "planned", lambda: ({timer: "OnCalendar=…\n"}, ["true"]))
    with pytest.raises(click.Abort):
        run("schedules", "install", given="n\n")
    assert not timer.exists()
    shown = run("schedules", "install", "--yes")
    assert "OnCalendar=…" in shown
    assert timer.read_text() == "OnCalendar=…\n"


def test_a_timer_that_cannot_be_used_says_why(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_timer, "planned", lambda: ({tmp_path / "a.timer": "x"}, ["ls", "/nowhere"]))
    with pytest.raises(UnderstudyError, match="/nowhere"):
        run("schedules", "install", "--yes")


@pytest.mark.parametrize(
    ("platform", "systemd", "named"),
    [
        ("linux", True, ["understudy-schedules.service", "understudy-schedules.timer"]),
        ("linux", False, ["crontab"]),
        ("darwin", False, ["dev.understudy.schedules.plist"]),
    ],
)
def test_each_system_has_a_timer_of_its_own(
    platform: str, systemd: bool, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("PATH", "/odd % folder")
    monkeypatch.setattr(Path, "is_dir", lambda path: systemd)
    files, command = system_timer.planned()
    assert [path.name for path in files] == named
    assert all("schedules" in text for text in files.values())
    texts = "".join(files.values())
    assert "PATH=/odd %" in texts if platform == "darwin" else ("PATH=/odd %%" in texts or r"PATH=/odd \%" in texts)
    assert bool(command) == (named != ["crontab"])
