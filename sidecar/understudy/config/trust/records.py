"""Record which workspaces the user trusts, and with which content.

Trust is bound to a digest of all files in the workspace that start programs or instruct agents without asking the user:
Understudy's own folder, the configuration of agent CLIs, whose hooks and servers an agent starts without asking, and
the tracked programs that checks and delegators start. When any of it changes, the user is asked again and shown what
changed. The records are in the state folder, one file per workspace.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.config.trust.digest import CHANGING, Allowed, digest, digest_of, visible
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp

MAX_RECORD_BYTES = 4 * 1024 * 1024
_MOST_CHANGES = 200
_revoked: ContextVar[Callable[[Path], bool] | None] = ContextVar("revoked", default=None)


@dataclass(frozen=True)
class TrustStatus:
    """Whether a workspace is trusted, and what changed."""

    trusted: bool
    known: bool
    """Whether the user has decided about this workspace before."""
    allows: list[str]
    changed: list[str] = field(default_factory=list)
    """The differences from what was trusted; empty if it is trusted, or the user was never asked."""
    hash: str = ""


@contextlib.contextmanager
def withdrawing(revoked: Callable[[Path], bool]) -> Iterator[None]:
    """Treat workspaces as untrusted inside the context, without changing the record.

    ``revoked`` gets a workspace's real path. This applies to everything that the current thread (or task) does.
    """
    token = _revoked.set(revoked)
    try:
        yield
    finally:
        _revoked.reset(token)


def status(workspace: Path, state: Path) -> TrustStatus:
    """Return whether ``workspace`` is trusted; ``state`` is the state folder."""
    now = digest(workspace)
    revoked = _revoked.get()
    if revoked is not None and revoked(Path(os.path.realpath(workspace))):
        return TrustStatus(trusted=False, known=True, allows=now.allows, hash=now.hash)
    record = _read(workspace, state)
    if record is None:
        return TrustStatus(trusted=False, known=False, allows=now.allows, hash=now.hash)
    if now.excess is not None:
        return TrustStatus(trusted=False, known=True, allows=now.allows, changed=[now.excess], hash=now.hash)
    if not record["trusted"]:
        return TrustStatus(trusted=False, known=True, allows=now.allows, hash=now.hash)
    if _holds(record, now):
        return TrustStatus(trusted=True, known=True, allows=now.allows, hash=now.hash)
    return TrustStatus(trusted=False, known=True, allows=now.allows, changed=_difference(record, now), hash=now.hash)


def is_trusted(workspace: Path, state: Path) -> bool:
    """Return whether ``status`` says so. The files of a workspace that the user never trusted are not looked at."""
    record = _read(workspace, state)
    return record is not None and bool(record["trusted"]) and status(workspace, state).trusted


def was_declined(workspace: Path, state: Path, seen: str) -> bool:
    """Return whether the user declined to trust exactly the content with the hash ``seen``."""
    record = _read(workspace, state)
    return record is not None and not record["trusted"] and record["hash"] == seen


def record(workspace: Path, state: Path, *, trusted: bool, seen: str | None = None) -> TrustStatus:
    """Record the user's decision and return the new trust status.

    ``seen``: the ``hash`` of what the user was shown; raises ``conflict`` if it has changed since.
    """
    now = digest(workspace)
    if trusted and now.excess is not None:
        if now.excess == CHANGING:
            raise UnderstudyError(ErrorKind.CONFLICT, now.excess, hint="Stop the program that writes them.")
        raise UnderstudyError(ErrorKind.CONFIG_INVALID, now.excess, hint="Move files that are not configuration away.")
    if trusted and seen is not None and seen != now.hash:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            "The configuration of the workspace changed after it was shown.",
            hint="Review it again, then decide again.",
        )
    with _locked(state):
        _write(workspace, state, now, trusted=trusted)
    return status(workspace, state)


def fingerprint(state: Path) -> str:
    """Return a text that changes when any record does: each is written by a rename in its folder."""
    try:
        facts = (state / "trust").stat()
    except FileNotFoundError:
        return ""
    return f"{facts.st_ino} {facts.st_mtime_ns}"


@contextlib.contextmanager
def preserving_trust(workspace: Path, state: Path, *, steps: list[tuple[str, bytes | None]]) -> Iterator[None]:
    """Let Understudy change files for the user without asking the user to trust the result.

    ``steps``: paths inside the workspace and their new content (``None``: removed), in this order.
    If the workspace is trusted, every intermediate state is recorded as trusted first, so that no other process
    finds the workspace untrusted in between; any other change still asks the user.
    """
    before = digest(workspace)
    kept = _read(workspace, state)
    if kept is None or not _holds(kept, before):
        yield
        return
    files = dict(before.files)
    foreseen: list[str] = []
    for path, data in steps:
        files.pop(path, None)
        if data is not None:
            files[path] = hashlib.sha256(b"-" + data).hexdigest()
        foreseen.append(digest_of(files))
    with _locked(state):
        _write(workspace, state, before, trusted=True, foreseen=foreseen)
    try:
        yield
    finally:
        after = digest(workspace)
        if after.hash in {before.hash, *foreseen}:
            with _locked(state):
                _write(workspace, state, after, trusted=True)


def _holds(record: dict[str, Any], now: Allowed) -> bool:
    """Return whether a record covers the current content."""
    return record["trusted"] and now.excess is None and now.hash in {record["hash"], *record["foreseen"]}


def _difference(record: dict[str, Any], now: Allowed) -> list[str]:
    """Describe what changed: what is newly allowed, what is no longer allowed, then the files."""
    before: dict[str, str] = record["files"]
    lines = [f"now: {line}" for line in now.allows if line not in record["allows"]]
    lines += [f"no longer: {line}" for line in record["allows"] if line not in now.allows]
    for path in sorted({*before, *now.files}):
        if path not in before:
            lines.append(f"added: {path}")
        elif path not in now.files:
            lines.append(f"removed: {path}")
        elif before[path] != now.files[path]:
            lines.append(f"changed: {path}")
    shown = [visible(line) for line in lines[:_MOST_CHANGES]]
    left = len(lines) - len(shown)
    return shown if left == 0 else [*shown, f"and {left} more changes, which are not shown"]


def _path(workspace: Path, state: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()
    return state / "trust" / f"{name}.json"


def _read(workspace: Path, state: Path) -> dict[str, Any] | None:
    """Return the record, or ``None`` if there is none that can be trusted."""
    try:
        descriptor = os.open(_path(workspace, state), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        # A record that another user owns or may write proves nothing.
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            return None
        data = file.read(MAX_RECORD_BYTES)
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return None
    shape = {"workspace": str, "trusted": bool, "hash": str, "allows": list, "files": dict, "foreseen": list}
    if not isinstance(record, dict) or not all(isinstance(record.get(key), kind) for key, kind in shape.items()):
        return None
    if not all(isinstance(item, str) for item in [*record["allows"], *record["foreseen"], *record["files"].values()]):
        return None
    return record if record["workspace"] == _name(workspace) else None


def _write(workspace: Path, state: Path, allowed: Allowed, *, trusted: bool, foreseen: list[str] | None = None) -> None:
    path = _path(workspace, state)
    content = {
        "workspace": _name(workspace),
        "trusted": trusted,
        "hash": allowed.hash,
        "allows": allowed.allows,
        "files": allowed.files,
        "foreseen": foreseen or [],
        "at": timestamp(precision="seconds"),
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError as error:
        raise _unavailable(path, error) from error


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[None]:
    from understudy.files.durable import folder_lock

    try:
        (state / "trust").mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unavailable(state / "trust", error) from error
    with folder_lock(state / "trust"):
        yield


def _unavailable(path: Path, error: OSError) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.STATE_UNAVAILABLE,
        f"{path} cannot be written: {error.strerror}.",
        hint="Make the state folder writable, or set UNDERSTUDY_STATE to another one.",
    )


def _name(workspace: Path) -> str:
    return os.fsencode(os.path.realpath(workspace)).decode("utf-8", "surrogateescape")
