"""Test the delegated share with session files in the forms that Claude Code and Codex write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.journal import delegation_folder
from understudy.model.config.price_table import price_table
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry, LedgerShare
from understudy.model.errors import UnderstudyError
from understudy.reports import ledger_share


def attempt(at: str, read: int, written: int) -> None:
    usage = msgspec.structs.replace(no_usage(), input_tokens=read, output_tokens=written)
    one = LedgerEntry(
        at=at,
        id="20261101-080000-00001",
        attempt=1,
        asked_by=AskedBy(frontend="cli", depth=0),
        recipe="tests",
        workspace="/project",
        delegator="cheap",
        model="m",
        usage=usage,
        cost_source="unknown",
        seconds=60.0,
        verdict="verified",
    )
    folder = delegation_folder.state_root() / "ledger"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{at[:7]}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(one) + b"\n")


def claude(answer: str, at: str, session: str = "s-1", cwd: str = "/project", **usage: int) -> dict[str, Any]:
    message = {"id": answer, "model": "opus-x", "role": "assistant", "content": [], "usage": usage}
    return {"type": "assistant", "timestamp": at, "sessionId": session, "cwd": cwd, "message": message}


def codex_sum(at: str, read: int, cached: int, written: int) -> dict[str, Any]:
    total = {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written, "total_tokens": 0}
    info = {"total_token_usage": total, "last_token_usage": total, "model_context_window": 1}
    return {"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def session(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return own_home


def read(**params: Any) -> LedgerShare:
    found = method_table.call("ledger/read", {"share": True, **params}, TerminalCaller(Path("/")))
    assert found.share is not None
    share: LedgerShare = found.share
    return share


def test_each_answer_of_an_orchestrator_counts_once(home: Path) -> None:
    attempt("2026-11-02T08:00:00.000Z", 3000, 600)
    projects, day = home / ".claude" / "projects" / "-project", home / ".codex" / "sessions" / "2026" / "11" / "02"
    first = claude("a", "2026-11-02T09:00:00.000Z", input_tokens=10, output_tokens=1, cache_read_input_tokens=90)
    last = claude("a", "2026-11-02T09:00:01.000Z", input_tokens=10, output_tokens=200, cache_read_input_tokens=90)
    early = claude("e", "2026-11-02T07:58:00.000Z", input_tokens=7777, output_tokens=7777)
    delegated = claude(
        "d", "2026-11-02T09:00:00.000Z", "s-2", f"{delegation_folder.state_root()}/worktrees/x", input_tokens=9
    )
    failed = claude("f", "2026-11-02T09:00:00.000Z", input_tokens=5555)
    failed["message"]["model"] = "<synthetic>"
    session(projects / "s-1.jsonl", early, {"type": "user", "message": {"content": "x"}}, first, last, failed)
    # A session that was continued repeats what was said before; a sub-agent has a file of its own.
    session(projects / "s-3.jsonl", last, '{"type": "assistant", "message": {"usage": 1}}', '{"usage":')
    more = {"cache_creation_input_tokens": 300, "input_tokens": 600, "output_tokens": 0}
    session(
        projects / "s-1" / "subagents" / "agent-1.jsonl", claude("b", "2026-11-02T09:10:00.000Z", **more), delegated
    )
    session(
        day / "rollout-1.jsonl",
        {"timestamp": "2026-11-02T07:00:00Z", "type": "session_meta", "payload": {"id": "c-1", "cwd": "/project"}},
        {"timestamp": "2026-11-02T07:00:00Z", "type": "turn_context", "payload": {"model": "gpt-x"}},
        codex_sum("2026-11-02T07:10:00.000Z", 1000, 0, 100),
        {
            "timestamp": "2026-11-02T07:11:00.000Z",
            "type": "event_msg",
            "payload": {"type": "token_count", "info": None},
        },
        codex_sum("2026-11-02T08:10:00.000Z", 3000, 1500, 300),
        codex_sum("2026-11-02T08:11:00.000Z", 3000, 1500, 300),
    )
    found = read()
    used = {one.tool: (one.model, one.sessions, one.usage) for one in found.orchestrators}
    assert found.since == "2026-11-02T07:59:00.000Z"
    model, sessions, usage = used["claude"]
    assert (model, sessions, usage.turns) == ("opus-x", 1, 2)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1000, 200, 90)
    model, sessions, usage = used["codex"]
    assert (model, sessions, usage.turns) == ("gpt-x", 1, 1)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (2000, 200, 1500)
    assert (found.read_percent, found.written_percent) == (50.0, 60.0)
    assert found.unread == ["Lines of Claude Code's sessions that are not in the known form (2)."]
    assert read(workspace=str(home)).orchestrators == []
    assert [one.tool for one in read(session="c-1").orchestrators] == ["codex"]
    assert read(until="2026-11-02T08:30:00Z", since="2026-11-01").read_percent == 21.8


def test_what_was_delegated_has_the_list_price_of_the_orchestrators_model(home: Path) -> None:
    attempt("2026-11-02T08:00:00.000Z", 2_000_000, 100_000)
    at = "2026-11-02T09:00:00.000Z"
    known, unknown = claude("a", at, input_tokens=1), claude("b", at, input_tokens=1)
    known["message"]["model"] = "claude-sonnet-4-5-20250929"
    session(home / ".claude" / "projects" / "p" / "s.jsonl", known, unknown)
    found = {one.model: (one.delegated_usd, one.price_date) for one in read().orchestrators}
    read_usd, written_usd = map(float, price_table().prices["api.anthropic.com"]["claude-sonnet-4-5"][:2])
    assert found["opus-x"] == (None, None)
    cost, date = found["claude-sonnet-4-5-20250929"]
    assert cost is not None
    assert float(cost) == pytest.approx(2 * read_usd + 0.1 * written_usd)
    assert date == price_table().date


def test_what_cannot_be_read_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projects = home / ".claude" / "projects" / "-project"
    session(projects / "s-1.jsonl", claude("a", "2026-11-02T09:00:00.000Z", input_tokens=10))
    session(projects / "s-2.jsonl", "x" * 2000, claude("b", "2026-11-02T09:00:00.000Z", input_tokens=10))
    (projects / "s-3.jsonl").symlink_to(projects / "s-1.jsonl")
    os.mkfifo(projects / "s-4.jsonl")
    monkeypatch.setattr(ledger_share, "MAX_LINE", 1000)
    found = read(since="2026-11-01")
    assert [one.usage.input_tokens for one in found.orchestrators] == [10]
    assert found.read_percent == 0.0
    assert sorted(found.unread) == [
        "Session files that cannot be opened: Too many levels of symbolic links.",
        "Session files with a line of more than 0 MiB.",
    ]
    monkeypatch.setattr(ledger_share, "MAX_BYTES", 0)
    monkeypatch.setattr(ledger_share, "MAX_SECONDS", -1.0)
    late = read(since="2026-11-01")
    assert late.read_percent is None
    assert late.unread == ["Session files, or parts of them, after 0 GiB or -1 s of reading (4)."]


def test_a_share_is_of_everything() -> None:
    with pytest.raises(UnderstudyError, match="not of one recipe"):
        read(recipe="tests")
    assert read().orchestrators == []


def test_damaged_lines_are_left_out_and_counted(home: Path) -> None:
    attempt("2026-11-02T08:00:00.000Z", 3000, 600)
    path = home / ".claude" / "projects" / "-project" / "s-1.jsonl"
    session(path, claude("a", "2026-11-02T09:00:00.000Z", input_tokens=10))
    deep = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "usage": 1}\n'
    path.write_bytes(b'{"type": "\xff\xfe", "usage": 1}\n' + deep + path.read_bytes())
    found = read()
    assert [one.usage.input_tokens for one in found.orchestrators] == [10]
    assert found.unread == ["Lines of Claude Code's sessions that are not in the known form (2)."]
