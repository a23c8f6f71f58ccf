"""Test the commands that take a group, with real delegations."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller

Understudy = Callable[..., list[dict]]


@pytest.fixture
def understudy(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Understudy:
    """Run commands with ``--json`` in a trusted repository whose delegator waits for a file ``go``."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    folder = own_home / "config" / "understudy" / "delegators"
    folder.mkdir(parents=True)
    code = (
        f"import pathlib, time\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.02)\nprint(1)"
    )
    (folder / "patient.toml").write_text(
        f'name = "patient"\ntool = "generic"\n[launch]\noutput = "text"\ncommand = {json.dumps([sys.executable, "-c", code])}\n'
    )
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    method_table.call("workspace/trust", {"workspace": str(top), "trusted": True}, TerminalCaller(top))

    def run(*arguments: str, code: int = 0) -> list[dict]:
        done = subprocess.run(
            [sys.executable, "-m", "understudy", *arguments, "--json"],
            cwd=top,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


def start(understudy: Understudy, group: str) -> str:
    return understudy("start", "ask", "-t", "x", "-d", "patient", "--detach", "--group", group)[0]["id"]


def test_waiting_for_a_group_includes_members_that_join_meanwhile(understudy: Understudy, tmp_path: Path) -> None:
    group = understudy("groups", "create")[0]["id"]
    first = start(understudy, group)
    found: list[dict] = []
    waiting = threading.Thread(target=lambda: found.extend(understudy("wait", "--group", group)))
    waiting.start()
    late = start(understudy, group)
    (tmp_path / "go").touch()
    waiting.join(120)
    assert [(one["id"], one["state"], one["verdict"]) for one in found] == [
        (identifier, "finished", "answered") for identifier in (first, late)
    ]


def test_cancelling_a_group_cancels_each_member_once(understudy: Understudy) -> None:
    group = understudy("groups", "create")[0]["id"]
    members = [start(understudy, group) for _ in range(2)]
    alone = start(understudy, understudy("groups", "create")[0]["id"])
    ended = understudy("cancel", members[1], alone, "--group", group)
    assert [one["id"] for one in ended] == [members[1], alone, members[0]]
    assert {one["verdict"] for one in ended} == {"cancelled"}
