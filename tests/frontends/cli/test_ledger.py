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
    assert (entry["delegator"], entry["verdict"], entry["size"]) == ("echo", "answered", 6)
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


@pytest.fixture
def attempts(own_home: Path) -> None:
    _ = own_home
    for number, changes in enumerate(
        (
            {"delegator": "cheap", "failure": "rate_limited", "id": "20261125-161847-aaaa0", "seconds": 3.0},
            {
                "delegator": "=dear",
                "verdict": "verified",
                "id": "20261125-161847-aaaa0",
                "attempt": 2,
                "cost_usd": "0.30",
            },
            {"delegator": "cheap", "verdict": "verified", "cost_usd": "0.01", "model": "m"},
            {"delegator": "cheap", "verdict": "answered", "recipe": "ask", "cost_usd": "0.01", "seconds": 60.0},
        )
    ):
        facts = {
            "at": f"2026-11-25T16:0{number}:00.000Z",
            "id": f"20261125-161847-aaaa{number}",
            "attempt": 1,
            "asked_by": AskedBy(frontend="cli", depth=0),
            "recipe": "tests",
            "workspace": "/",
            "model": "",
            "usage": no_usage(),
            "cost_source": "reported",
            "seconds": 10.0,
        }
        ledger.append(LedgerEntry(**facts | changes))


@pytest.mark.usefixtures("attempts")
def test_metrics_have_success_times_hand_overs_failures_and_costs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    header, dear, cheap, everything = run("metrics").splitlines()
    assert header.split()[:6] == ["DELEGATOR", "RUNS", "SUCCESS", "P50", "P90", "HANDED"]
    assert dear.split() == ["=dear", "1", "1", "(100", "%)", "0:10", "0:10", "0", "-", "-", "0.3", "0.3", "-"]
    assert cheap.split()[:8] == ["cheap", "3", "2", "(67", "%)", "0:10", "1:00", "1"]
    assert cheap.split()[-3:] == ["1", "rate", "limited"]
    assert everything.split()[:3] == ["all", "4", "3"]
    assert [line.split()[:2] for line in run("metrics", "--recipe", "ask", "--by", "day").splitlines()[1:]] == [
        ["2026-11-25", "1"]
    ]
    assert run("metrics", "--since", "2027-01-01") == ""
    told = json.loads(run("metrics", "--agent", "cheap", "--json"))
    assert told["totals"]["outcomes"] == {"rate_limited": 1, "verified": 1, "answered": 1}
    assert (told["totals"]["handovers"], told["totals"]["verifiedUsd"]) == (1, "0.02")
    with pytest.raises(click.UsageError):
        run("metrics", "--csv", "--json")
    assert "For each verified result: 0.16 US dollars." in run("ledger").splitlines()


@pytest.mark.usefixtures("attempts")
def test_metrics_as_a_table_for_spreadsheets():
    first, second = csv.DictReader(io.StringIO(run("metrics", "--csv")))
    assert (first["delegator"], first["runs"], first["verifiedUsd"]) == ("'=dear", "1", "0.3")
    assert (second["succeeded"], second["p90Seconds"], second["failures"]) == ("2", "60.0", "rate_limited:1")
