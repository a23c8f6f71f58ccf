"""``understudy ledger`` shows and exports what really ran."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app
from understudy.journal import ledger
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.errors import UnderstudyError


@pytest.fixture
def worked(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which a delegation has answered, started by an agent in its session."""
    _ = own_home
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-1")
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(project)
    run("delegators", "add", "echo", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    run("start", "explain", "a.py", "-d", "echo", "--trust", "-q")
    return project


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return click.unstyle(result.stdout)


def test_a_delegation_appears_with_its_outcome_and_in_every_export(worked: Path):
    said = run("ledger", "--compare", "3/15")
    header, row, empty, *summary = said.splitlines()
    assert (header.split()[0], empty) == ("WHEN", "")
    assert row.split()[3:5] == ["explain", "answered"]
    assert row.split()[-3:] == ["claude", "echo", "-"]
    assert summary[0] == "1 ended attempt of 1 delegation: 1 answered."
    assert summary[2] == "Cost: unknown."
    assert summary[3].startswith("At 3/15 US dollars per million tokens: ")
    assert run("ledger", "--by", "delegator").splitlines()[1].split()[:4] == ["echo", "1", "0", "0"]
    assert run("ledger", "--until", "2020-01-01") == ""
    (line,) = run("ledger", "--export", "jsonl").splitlines()
    entry = json.loads(line)
    assert (entry["delegator"], entry["verdict"]) == ("echo", "answered")
    assert (entry["askedBy"]["agent"], entry["askedBy"]["session"]) == ("claude", "s-1")
    (cells,) = csv.DictReader(io.StringIO(run("ledger", "--export", "csv", "--since", "1h")))
    assert (cells["id"], cells["agent"], cells["workspace"]) == (entry["id"], "claude", str(worked))
    record = json.loads(run("ledger", "--export", "token-meter"))
    assert (record["command"], record["profile"], record["claude_session_id"]) == ("explain", "echo", "s-1")
    assert (record["codex_session_id"], record["backend"], record["host"]) == ("", "generic", "")
    assert json.loads(run("ledger", "--json"))["lines"][0]["review"] == {"pending": 0, "accepted": 0, "rejected": 0}


@pytest.mark.parametrize(
    ("costs", "cost", "today"),
    [
        (["0", "0"], "Cost: none.", "2 attempts without tokens, no cost"),
        ([None, None], "Cost: unknown.", "2 attempts without tokens, cost unknown"),
        (
            ["0", None],
            "Cost: 0 US dollars (1 unknown and not counted).",
            "2 attempts without tokens, 0 US dollars and 1 attempt of unknown cost",
        ),
    ],
)
def test_what_cost_nothing_is_not_unknown(own_home: Path, costs: list[str | None], cost: str, today: str):
    _ = own_home
    for number, amount in enumerate(costs):
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = LedgerEntry(
            at=at,
            id=f"20261125-161847-aaaa{number}",
            attempt=1,
            asked_by=AskedBy(frontend="cli", depth=0),
            recipe="tests",
            workspace="/",
            delegator="ghostwriter",
            model="",
            usage=no_usage(),
            cost_usd=amount,
            cost_source="unknown" if amount is None else "reported",
            seconds=1,
        )
        ledger.append(entry)
    lines = run("ledger").splitlines()
    assert lines[-1] == cost
    for line, amount in zip(lines[1:3], reversed(costs), strict=True):
        assert ("reported" in line) is (amount is not None)
        assert "unknown" not in line
    assert f"Today:         {today}\n" in run("status")


def test_no_cell_of_a_spreadsheet_is_a_formula(worked: Path):
    _ = worked
    run(
        "delegators",
        "add",
        "sums",
        "--tool",
        "generic",
        "--model",
        "=1+1",
        "--",
        "/bin/echo",
        "{model}",
        "{promptFile}",
    )
    run("start", "explain", "a.py", "-d", "sums", "-q")
    (cells,) = csv.DictReader(io.StringIO(run("ledger", "--export", "csv", "-d", "sums")))
    assert cells["model"] == "'=1+1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--since", "soon"],
        ["--since", "2026-99-99"],
        ["--compare", "3"],
        ["--compare", "a/b"],
        ["--by", "week"],
        ["--export", "csv", "--by", "model"],
        ["--verdict", "verifed"],
        ["--since", "999999w"],
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], own_home: Path):
    _ = own_home
    with pytest.raises((UnderstudyError, click.UsageError)):
        run("ledger", *arguments)
