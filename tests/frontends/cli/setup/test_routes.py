"""``routes``: added, listed, explained and removed, and used wherever a delegator is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from understudy.engine.planning import route_advice
from understudy.frontends.cli import app
from understudy.journal import ledger
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.errors import ErrorKind, UnderstudyError

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


@pytest.fixture
def worked(project: Path) -> Path:
    """Runs of `tests`: `dear` succeeds in 19 of 20, `free` in 4 of 20; `gone` is no longer configured."""
    good = [("dear", number < 19) for number in range(20)] + [("free", number < 4) for number in range(20)]
    for number, (delegator, is_verified) in enumerate([*good, ("gone", True)]):
        record(number, delegator, verdict="verified" if is_verified else "unverified")
    record(41, "free", verdict="cancelled", failure="cancelled")
    return project


def record(number: int, delegator: str, **changes: Any) -> None:
    facts = {
        "at": (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "id": f"20261125-161847-a{number:04}",
        "attempt": 1,
        "asked_by": AskedBy(frontend="cli", depth=0),
        "recipe": "tests",
        "language": "python",
        "size": 5_000,
        "workspace": "/elsewhere",
        "delegator": delegator,
        "model": "",
        "usage": no_usage(),
        "cost_usd": "0.10" if delegator == "dear" else None,
        "cost_source": "reported",
        "seconds": 10.0,
    }
    ledger.append(LedgerEntry(**facts | changes))


def suggestions(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(run("routes", "suggest", *arguments, "--json"))["suggestions"]


def test_a_suggestion_has_the_evidence_and_changes_nothing(worked: Path) -> None:
    told = run("routes", "suggest")
    lines = told.splitlines()
    assert lines[0] == "tests:"
    assert lines[2].split()[:4] == ["dear", "20", "19", "(76-99"]
    assert "clearly better than free" in lines[2]
    assert lines[3].split()[:3] == ["free", "20", "4"]
    assert "tests, python, small (up to 10,000 bytes):" in lines
    assert "gone" not in told
    assert not (worked / "routes").exists()
    (suggestion,) = suggestions("tests")
    dear, free = suggestion["groups"][0]["candidates"]
    assert (dear["costUsd"], dear["successUsd"], free.get("costUsd"), free["costsUnknown"]) == (
        "2",
        "0.105263",
        None,
        20,
    )
    assert (dear["medianSeconds"], dear["seconds"]) == (10.0, {"low": 10.0, "high": 10.0})
    assert suggestion["route"]["route"]["candidates"] == ["dear", "free"]


def test_a_suggestion_is_saved_after_its_diff_and_once_more_changes_nothing(worked: Path) -> None:
    file = worked / "routes" / "suggested-tests.toml"
    refused = CliRunner().invoke(app.group, ["learn", "tests", "--apply"], input="n\n", standalone_mode=False)
    assert isinstance(refused.exception, click.Abort)
    assert "+++ " + str(file) in refused.output
    assert not file.exists()
    saved = run("optimize", "tests", "--apply", "--yes")
    assert '+    "dear",' in saved
    assert file.is_file()
    assert "tests: nothing to change." in run("routes", "suggest", "tests", "--apply", "--yes")
    for number in range(100, 200):
        record(number, "free", verdict="verified")
    changed = run("routes", "suggest", "tests", "--apply", "--yes")
    assert '-    "dear",' not in changed, "there are not enough runs to distinguish them"
    for number in range(200, 260):
        record(number, "dear", verdict="unverified")
    assert '-    "dear",' in run("routes", "suggest", "tests", "--apply", "--yes")
    entry = json.loads(run("delegators", "show", "suggested-tests", "--json"))["delegator"]["route"]
    assert entry["candidates"] == ["free"], "dear works on other machines, so it does not follow free"
    run("routes", "suggest", "tests", "--apply", "--yes", "--remote")
    entry = json.loads(run("delegators", "show", "suggested-tests", "--json"))["delegator"]["route"]
    assert (entry["candidates"], entry["remote"]) == (["free", "dear"], True)


def test_a_route_of_the_user_is_put_in_order_with_its_revision(worked: Path) -> None:
    run("routes", "add", "mine", "tag=cheap", "dear", "--recipe", "tests", "--order", "cheapest", "--remote")
    (suggestion,) = suggestions("tests", "--route", "mine")
    assert suggestion["revision"]
    run("routes", "suggest", "tests", "--route", "mine", "--apply", "--yes")
    entry = json.loads(run("delegators", "show", "mine", "--json"))["delegator"]["route"]
    assert entry["candidates"] == ["dear", {"tags": ["cheap"]}]
    assert (entry["remote"], entry.get("order", "listed")) == (True, "listed")
    assert "mine.toml" in suggestion["diff"]
    _ = worked


def test_a_route_that_was_written_by_hand_is_not_changed(worked: Path) -> None:
    path = worked / "config.toml"
    path.write_text(
        path.read_text().replace('recipes = ["tests", "ask"]', 'recipes = ["tests"]').replace('"go"', '"python"')
    )
    path.write_text(path.read_text().replace('["dear", {', '[{ local = true }, "dear", {'))
    before = path.read_bytes()
    with pytest.raises(UnderstudyError) as caught:
        run("routes", "suggest", "tests", "--route", "by-hand", "--remote", "--apply", "--yes")
    assert (caught.value.kind, caught.value.hint) == (ErrorKind.NOT_EDITABLE, "Edit the file itself.")
    assert caught.value.location is not None
    assert not (worked / "routes").exists()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--route", "by-hand"], "A route gets the order of one recipe"),
        (["tests", "--route", "by-hand"], "not for the recipe 'tests' only"),
        (["tests", "--route", "free"], "free is a delegator, not a route"),
        (["testz"], "testz"),
        (["tests", "--since", "soon"], "'soon' is not a date"),
        (["tests", "--apply", "--json"], "--json needs --yes"),
    ],
)
def test_a_suggestion_that_cannot_be_is_refused(worked: Path, arguments: list[str], message: str) -> None:
    _ = worked
    with pytest.raises(Exception, match=message):
        run("routes", "suggest", *arguments)


def test_runs_are_selected_by_time_and_workspace(worked: Path) -> None:
    _ = worked
    assert suggestions("--since", "1h") == []
    assert suggestions("--here") == []
    (only,) = suggestions("fix")
    assert "route" not in only
    assert run("routes", "suggest", "--here") == "Nothing was delegated in this time.\n"


def test_all_attempts_of_a_delegator_on_a_delegation_are_one_run(project: Path) -> None:
    record(1, "dear", seconds=5.0)
    record(1, "dear", attempt=2, seconds=7.0, verdict="verified")
    record(2, "free", failure="rate_limited")
    record(2, "dear", attempt=2, verdict="unverified", cost_usd=None)
    (suggestion,) = suggestions("tests")
    dear, free = suggestion["groups"][0]["candidates"]
    assert (dear["runs"], dear["succeeded"], dear["costUsd"], dear["costsUnknown"]) == (2, 1, "0.2", 1)
    assert (dear["medianSeconds"], free["runs"], free["succeeded"]) == (10.0, 1, 0)
    _ = project


def test_accepted_hunks_are_counted_while_a_delegation_is_on_disk(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(1, "dear", verdict="verified")
    record(2, "dear", verdict="verified")
    monkeypatch.setattr(route_advice.delegation_folder, "ids", lambda: ["20261125-161847-a0001"])
    monkeypatch.setattr(
        route_advice, "_decisions", lambda identifier: (3, 1) if identifier.endswith("1") else pytest.fail(identifier)
    )
    (suggestion,) = suggestions("tests")
    (dear,) = suggestion["groups"][0]["candidates"]
    assert (dear["accepted"], dear["decided"]) == (3, 4)
    assert "3/4" in run("routes", "suggest", "tests")
    _ = project
