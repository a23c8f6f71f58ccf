"""``routes``: added, listed, explained and removed, and used wherever a delegator is."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app

CONFIG = """
[[model_servers]]
name = "here"
kind = "ollama"
base_url = "http://127.0.0.1:1/v1"

[[model_servers]]
name = "there"
kind = "custom"
base_url = "https://models.example/v1"
prices = { "" = { input = "1", output = "5" } }

[[delegators]]
name = "dear"
model_server = "there"
model = "big"

[[delegators]]
name = "free"
model_server = "here"
model = "small"
tags = ["cheap"]

[[routes]]
name = "by-hand"
candidates = ["dear", { tags = ["cheap"], languages = ["go"] }]
recipes = ["tests", "ask"]
"""


@pytest.fixture
def project(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_home / "config" / "understudy"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.py").write_text("A = 1\n")
    monkeypatch.chdir(tmp_path / "project")
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return click.unstyle(result.output)


def test_a_route_is_one_file_that_is_listed_explained_and_removed(project: Path) -> None:
    assert "routes/cheap.toml" in run("routes", "add", "cheap", "dear", "tag=cheap", "--order", "cheapest", "--remote")
    assert (project / "routes" / "cheap.toml").is_file()
    lines = run("routes").splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["NAME", "by-hand", "cheap"]
    assert "dear, tag=cheap" in lines[2]
    explained = run("routes", "explain", "-d", "cheap", "tests", "a.py").splitlines()
    assert explained[0] == "tests: free, because it was chosen for this run; route cheap: it costs nothing"
    assert [line.split()[:2] for line in explained[2:]] == [["free", "taken"], ["dear", "follows"]]
    assert "about 2.00 US dollars for a million tokens" in explained[3]
    run("delegators", "default", "cheap", "--for", "tests")
    assert json.loads(run("preview", "tests", "a.py", "--json"))["explain"]["fallback"] == ["dear"]
    run("routes", "remove", "cheap")
    assert not (project / "routes" / "cheap.toml").exists()


def test_conditions_and_locality_leave_candidates_out_with_the_reason(project: Path) -> None:
    explained = run("routes", "explain", "-d", "by-hand", "tests", "a.py")
    assert "free       skipped  it is for files in go only" in explained
    run("routes", "add", "home-first", "free", "dear")
    preview = json.loads(run("preview", "tests", "a.py", "-d", "home-first", "--json"))["explain"]
    assert "fallback" not in preview, "texts for a model on this machine stay there"
    with pytest.raises(Exception, match="route 'by-hand' has no candidate for this work"):
        run("routes", "explain", "-d", "by-hand", "fix", "a.py")


def test_a_recipe_is_one_where_a_folder_has_its_name(project: Path) -> None:
    Path("tests").mkdir()
    explained = run("routes", "explain", "-d", "by-hand", "tests", "a.py")
    assert explained.startswith("tests: dear, ")
    assert run("routes", "explain", "-d", "by-hand", "a.py") == explained


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["routes", "add", "x", "colour=red"], "'colour=red' selects nothing"),
        (["routes", "add", "dear", "free"], "already exists"),
        (["routes", "remove", "free"], "free is not a route"),
        (["delegators", "test", "by-hand"], "'by-hand' is a route"),
    ],
)
def test_what_cannot_be_is_refused(project: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(*arguments)


def test_a_route_of_unknown_delegators_and_of_routes_is_not_ready(project: Path) -> None:
    (project / "routes").mkdir()
    (project / "routes" / "odd.toml").write_text('candidates = ["missing", "by-hand", {}]\n')
    problems = [
        problem["message"]
        for entry in json.loads(run("routes", "--json"))["routes"]
        for problem in entry["state"]["problems"]
        if entry["delegator"]["name"] == "odd"
    ]
    assert problems == [
        "The candidate names no delegator, and nothing that selects one.",
        "There is no delegator `missing`.",
        "`by-hand` is a route itself.",
    ]
