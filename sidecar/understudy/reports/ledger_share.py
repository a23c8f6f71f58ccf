"""How much of the work was delegated: compare the ledger with the session files of Claude Code and Codex.

Claude Code writes a line per content block of an answer, with the usage of the whole answer on each, to
``projects/<folder>/**/<session>.jsonl``; a session that is continued may repeat earlier lines. Its ``input_tokens``
exclude what a cache had. Codex writes the sums so far to ``sessions/**/rollout-*.jsonl``, once or more for each answer;
its ``input_tokens`` include what a cache had. Both are read, never written, and only when the user asks.
"""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from understudy.journal import delegation_folder, reader
from understudy.model.config.price_table import price_table
from understudy.model.delegation.delegations import Usage, no_usage
from understudy.model.delegation.ledger import LedgerShare, OrchestratorUsage
from understudy.model.errors import UnderstudyError
from understudy.model.wire import ready
from understudy.policy import budget

MAX_FILES = 20_000
MAX_BYTES = 2 * 1024**3
MAX_LINE = 16 * 1024**2
MAX_SECONDS = 30.0
"""Bounds of one request; what exceeds them is left out and reported. 190 MB took four seconds of one processor."""

BEGINNING = "1970-01-01T00:00:00.000Z"


class _ClaudeUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0


class _ClaudeMessage(msgspec.Struct):
    id: str | None = None
    model: str = ""
    usage: _ClaudeUsage | None = None


class _ClaudeLine(msgspec.Struct, rename="camel"):
    type: str = ""
    timestamp: str = ""
    session_id: str = ""
    cwd: str = ""
    message: _ClaudeMessage | None = None


class _CodexSum(msgspec.Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _CodexInfo(msgspec.Struct):
    total_token_usage: _CodexSum | None = None


class _CodexPayload(msgspec.Struct):
    type: str = ""
    id: str = ""
    cwd: str = ""
    model: str = ""
    info: _CodexInfo | None = None


class _CodexLine(msgspec.Struct):
    timestamp: str = ""
    type: str = ""
    payload: _CodexPayload | None = None


_CLAUDE = msgspec.json.Decoder(ready(_ClaudeLine))
_CODEX = msgspec.json.Decoder(ready(_CodexLine))
_Entry = TypeVar("_Entry", _ClaudeLine, _CodexLine)
_UNKNOWN_FORM = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a line raises that is not in the known form: the last two for damaged bytes, and for very deep nesting."""


@dataclass(frozen=True, kw_only=True)
class Period:
    """Which part of the sessions counts."""

    since: str
    """RFC 3339 in UTC."""
    until: str | None = None
    workspace: str | None = None
    """Only sessions whose folder is in this one."""
    session: str | None = None

    def has(self, timestamp: str, session: str, cwd: str) -> bool:
        """Return whether an answer counts: its time in RFC 3339, UTC, its session, and where the session works.

        One of our worktrees never counts, also that of a delegation whose folder is gone.
        """
        is_in_time = timestamp >= self.since and (self.until is None or timestamp < self.until)
        is_in_workspace = self.workspace is None or _is_below(cwd, self.workspace)
        is_own = _is_below(cwd, str(delegation_folder.state_root()))
        return is_in_time and self.session in {None, session} and is_in_workspace and not is_own


@dataclass
class _Counted:
    usages: dict[tuple[str, str], Usage] = field(default_factory=dict)
    """(tool, model) → usage."""
    sessions: dict[tuple[str, str], set[str]] = field(default_factory=lambda: collections.defaultdict(set))
    unread: collections.Counter[str] = field(default_factory=collections.Counter)
    bytes_left: int = MAX_BYTES
    ends_at: float = 0.0

    def add(self, tool: str, model: str, session: str, usage: Usage) -> None:
        key = (tool, model)
        self.usages[key] = budget.sum_of([self.usages.get(key, no_usage()), usage])
        self.sessions[key].add(session)


def share(period: Period, delegated: Usage) -> LedgerShare:
    """Return the share of ``delegated``, the usage of all attempts of the period; raises nothing."""
    own_sessions = _own_sessions()
    counted = _Counted(ends_at=time.monotonic() + MAX_SECONDS)
    _read_claude(counted, period, own_sessions)
    _read_codex(counted, period, own_sessions)
    orchestrators = [
        _orchestrator(tool, model, len(counted.sessions[tool, model]), usage, delegated)
        for (tool, model), usage in sorted(counted.usages.items(), key=lambda item: -item[1].output_tokens)
    ]
    return LedgerShare(
        since=period.since,
        orchestrators=orchestrators,
        read_percent=_percent(
            delegated.input_tokens, sum(orchestrator.usage.input_tokens for orchestrator in orchestrators)
        ),
        written_percent=_percent(
            delegated.output_tokens, sum(orchestrator.usage.output_tokens for orchestrator in orchestrators)
        ),
        unread=[f"{what} ({count})." if count > 1 else f"{what}." for what, count in counted.unread.items()],
    )


_HOSTS = {"claude": "api.anthropic.com", "codex": "api.openai.com"}
"""Whose list prices an agent CLI's models have."""


def _orchestrator(tool: str, model: str, sessions: int, usage: Usage, delegated: Usage) -> OrchestratorUsage:
    cost = budget.list_cost(_HOSTS.get(tool, ""), model, delegated)
    return OrchestratorUsage(
        tool=tool,
        model=model,
        sessions=sessions,
        usage=usage,
        delegated_usd=cost,
        price_date=price_table().date if cost is not None else None,
    )


def _percent(delegated: int, kept: int) -> float | None:
    return round(100 * delegated / (delegated + kept), 1) if delegated + kept else None


def _own_sessions() -> set[str]:
    """Return the sessions of delegations: they are in the same files, and counted in the ledger."""
    root = delegation_folder.delegations_root()
    sessions: set[str] = set()
    for name in delegation_folder.ids():
        try:
            attempts = reader.peek(delegation_folder.Folder(name, root / name)).attempts
        except (UnderstudyError, OSError):
            continue
        sessions.update(attempt.session_id for attempt in attempts if attempt.session_id is not None)
    return sessions


def _is_below(cwd: str, folder: str) -> bool:
    return cwd == folder or cwd.startswith(folder.rstrip("/") + "/")


def _read_claude(counted: _Counted, period: Period, own_sessions: set[str]) -> None:
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    root = (Path(folder) if folder else Path.home() / ".claude") / "projects"
    answers: dict[str, tuple[str, str, _ClaudeUsage]] = {}
    for path in _files(root, period, counted):
        for number, entry in enumerate(_entries(path, counted, _CLAUDE, (b'"usage"',), "Claude Code")):
            message = entry.message
            if entry.type != "assistant" or message is None or message.usage is None or message.model == "<synthetic>":
                continue
            session = entry.session_id or path.stem
            if session not in own_sessions and period.has(entry.timestamp, session, entry.cwd):
                # The last line of an answer has its final usage.
                answers[message.id or f"{path}:{number}"] = (session, message.model, message.usage)
    for session, model, used in answers.values():
        cached, written = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
        usage = msgspec.structs.replace(
            no_usage(),
            input_tokens=_natural(used.input_tokens) + _natural(cached) + _natural(written),
            output_tokens=_natural(used.output_tokens),
            cache_read_tokens=_natural(cached),
            cache_write_tokens=_natural(written),
            turns=1,
        )
        counted.add("claude", model, session, usage)


def _read_codex(counted: _Counted, period: Period, own_sessions: set[str]) -> None:
    root = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "sessions"
    for path in _files(root, period, counted):
        session, cwd, model, before = path.stem, "", "", _CodexSum()
        words = (b'"token_count"', b'"turn_context"', b'"session_meta"')
        for entry in _entries(path, counted, _CODEX, words, "Codex"):
            payload = entry.payload
            if payload is None:
                continue
            if entry.type == "session_meta":
                session, cwd = payload.id or session, payload.cwd or cwd
            elif entry.type == "turn_context":
                model, cwd = payload.model or model, payload.cwd or cwd
            elif payload.type == "token_count" and payload.info is not None and payload.info.total_token_usage:
                now = payload.info.total_token_usage
                used, before = _difference(now, before), now
                is_counted = session not in own_sessions and period.has(entry.timestamp, session, cwd)
                if is_counted and used is not None:
                    counted.add("codex", model, session, used)


def _difference(now: _CodexSum, before: _CodexSum) -> Usage | None:
    """Return what was used between two sums; None if nothing was. Sums that fall have begun again."""
    if now.input_tokens < before.input_tokens or now.output_tokens < before.output_tokens:
        before = _CodexSum()
    if (now.input_tokens, now.output_tokens) == (before.input_tokens, before.output_tokens):
        return None
    return msgspec.structs.replace(
        no_usage(),
        input_tokens=_natural(now.input_tokens - before.input_tokens),
        output_tokens=_natural(now.output_tokens - before.output_tokens),
        cache_read_tokens=_natural(now.cached_input_tokens - before.cached_input_tokens),
        reasoning_tokens=_natural(now.reasoning_output_tokens - before.reasoning_output_tokens),
        turns=1,
    )


def _natural(count: int) -> int:
    return min(max(0, count), 10**12)


def _files(root: Path, period: Period, counted: _Counted) -> Iterator[Path]:
    """Yield the session files that changed in the period or later, the newest first."""
    earliest = datetime.fromisoformat(period.since).timestamp() if period.since else 0.0
    files: list[tuple[float, Path]] = []

    def unreadable(error: OSError) -> None:
        counted.unread[f"Folders below {root} that cannot be opened: {error.strerror}"] += not isinstance(
            error, FileNotFoundError
        )

    for folder, _, names in os.walk(root, onerror=unreadable):
        for name in names:
            if name.endswith(".jsonl") and len(files) < MAX_FILES:
                path = Path(folder, name)
                try:
                    changed = path.lstat().st_mtime
                except OSError:
                    continue
                if changed >= earliest:
                    files.append((changed, path))
    if len(files) >= MAX_FILES:
        counted.unread[f"Session files below {root} beyond {MAX_FILES}"] += 1
    counted.unread = +counted.unread
    for _, path in sorted(files, reverse=True):
        yield path


def _entries(
    path: Path, counted: _Counted, decoder: msgspec.json.Decoder[_Entry], words: tuple[bytes, ...], tool: str
) -> Iterator[_Entry]:
    """Yield the decoded lines that contain one of ``words``."""
    for line in _lines(path, counted, words):
        try:
            yield decoder.decode(line)
        except _UNKNOWN_FORM:
            counted.unread[f"Lines of {tool}'s sessions that are not in the known form"] += 1


def _is_exhausted(counted: _Counted) -> bool:
    """Return whether a bound of the request is reached, and report it."""
    if counted.bytes_left > 0 and time.monotonic() <= counted.ends_at:
        return False
    counted.unread[f"Session files, or parts of them, after {MAX_BYTES >> 30} GiB or {MAX_SECONDS:g} s of reading"] += 1
    return True


def _lines(path: Path, counted: _Counted, words: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the lines that contain one of ``words``, within the bounds of the request."""
    if _is_exhausted(counted):
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            while line := file.readline(MAX_LINE):
                counted.bytes_left -= len(line)
                if _is_exhausted(counted):
                    return
                if len(line) >= MAX_LINE:
                    counted.unread[f"Session files with a line of more than {MAX_LINE >> 20} MiB"] += 1
                    return
                if any(word in line for word in words):
                    yield line
    except OSError as error:
        counted.unread[f"Session files that cannot be opened: {error.strerror}"] += 1
