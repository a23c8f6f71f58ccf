"""Which workspaces a person trusts, and with what in them.

Trust is bound to a digest of everything in the tree that makes a program start or tells an agent
what to do without being asked: Understudy's own folder, and the configuration of agent CLIs, whose
hooks and servers an agent starts by itself. When any of it changes, the workspace is asked about
again, and the answer shows what changed. The records lie in the state folder, one file a workspace.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.model.errors import ErrorKind, UnderstudyError

WATCHED = (
    ".understudy",
    ".worktreeinclude",  # what is copied into the trees that agents see
    ".mcp.json",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/plugins",
    ".claude/skills",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".codex",
    ".gemini",
    ".qwen",
    ".cursor",
    ".pi",
    ".goose",
    ".crush.json",
    "crush.json",
    ".aider.conf.yml",
    ".github/agents",
    ".github/hooks",
    ".vscode/mcp.json",
)
"""What is covered. Not instructions for people and agents (CLAUDE.md): they are text, and start nothing."""

MAX_FILES = 4000
MAX_BYTES = 64 * 1024 * 1024
"""Beyond these a folder is not configuration, and the workspace cannot be trusted as it is."""

MAX_RECORD_BYTES = 4 * 1024 * 1024
_PIECE = 1024 * 1024
_withdrawn: ContextVar[Callable[[Path], bool] | None] = ContextVar("withdrawn", default=None)
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u200a\u2010-\u2027\u2030-\u205e\u2070-\ud7ff\uf900-\ufefe\uff00-\uffef]")


@dataclass(frozen=True)
class Allowed:
    """What trusting a workspace allows, as it is now."""

    hash: str
    allows: list[str]
    """In words, the most far-reaching first; safe to print on a terminal."""
    files: dict[str, str]
    """Path inside the workspace → digest of its content."""
    excess: str | None = None
    """Why it cannot be trusted at all."""


@dataclass(frozen=True)
class TrustStatus:
    """How a workspace stands."""

    trusted: bool
    known: bool
    """A person has answered for this workspace before."""
    allows: list[str]
    changed: list[str] = field(default_factory=list)
    """What is different from what was trusted; empty when it is trusted, or never was asked about."""
    hash: str = ""


def digest(workspace: Path) -> Allowed:
    """Return what trusting ``workspace`` allows; starts nothing, and follows links inside the workspace only."""
    root = Path(os.path.realpath(workspace))
    walk = _Walk(root)
    for name in WATCHED:
        walk.add(name)
    from understudy.config import allowance  # noqa: PLC0415 - reads the configuration

    words = [printable(line) for line in allowance.words(root, sorted(walk.files))]
    return Allowed(_whole(walk.files), words, walk.files, walk.excess)


@contextlib.contextmanager
def withdrawing(withdrawn: Callable[[Path], bool]) -> Iterator[None]:
    """Count workspaces as untrusted meanwhile, whatever is recorded; the record stays as it is.

    ``withdrawn`` gets a workspace's real path. It holds for everything that the current thread (or task) does.
    """
    token = _withdrawn.set(withdrawn)
    try:
        yield
    finally:
        _withdrawn.reset(token)


def status(workspace: Path, state: Path) -> TrustStatus:
    """Return how ``workspace`` stands; ``state`` is the state folder."""
    now = digest(workspace)
    withdrawn = _withdrawn.get()
    if withdrawn is not None and withdrawn(Path(os.path.realpath(workspace))):
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


def was_refused(workspace: Path, state: Path, seen: str) -> bool:
    """Tell whether a person has said no to exactly what had the hash ``seen``."""
    found = _read(workspace, state)
    return found is not None and not found["trusted"] and found["hash"] == seen


def record(workspace: Path, state: Path, *, trusted: bool, seen: str | None = None) -> TrustStatus:
    """Keep a person's answer and return how the workspace stands now.

    ``seen``: the ``hash`` of what they were shown; if it is something else by now, ``conflict``.
    """
    now = digest(workspace)
    if trusted and now.excess is not None:
        raise UnderstudyError(ErrorKind.CONFIG_INVALID, now.excess, hint="Move what is no configuration elsewhere.")
    if trusted and seen is not None and seen != now.hash:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            "What the workspace allows has changed since it was shown.",
            hint="Look at it again and decide again.",
        )
    with _locked(state):
        _write(workspace, state, now, trusted=trusted)
    return status(workspace, state)


@contextlib.contextmanager
def keeping(workspace: Path, state: Path, *, steps: list[tuple[str, bytes | None]]) -> Iterator[None]:
    """Let Understudy itself change files without asking the person about their own edit.

    ``steps``: paths inside the workspace and what they will hold (``None``: nothing), in this order.
    Where trust holds before, every state on the way is trusted beforehand, so that no other process
    finds the workspace untrusted in between; any other change still asks.
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
        foreseen.append(_whole(files))
    with _locked(state):
        _write(workspace, state, before, trusted=True, foreseen=foreseen)
    try:
        yield
    finally:
        after = digest(workspace)
        if after.hash in {before.hash, *foreseen}:
            with _locked(state):
                _write(workspace, state, after, trusted=True)


def printable(text: str) -> str:
    """Return ``text`` on one line, bounded, without characters that steer a terminal or turn the reading direction."""
    return _UNPRINTABLE.sub("�", text)[:300]


class _Walk:
    """Collects the digests of what is watched, with bounds on everything."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self.excess: str | None = None
        self._bytes = 0
        self._folders: set[tuple[int, int]] = set()

    def add(self, name: str) -> None:
        """Add a file, or a folder with everything below it, if it is there."""
        path = self.root / name
        try:
            facts = path.lstat()
        except OSError:
            return
        if self.excess is not None:
            return
        if len(self.files) >= MAX_FILES:
            self.excess = f"More than {MAX_FILES} files configure agents here, which is too many to look at."
            return
        if stat.S_ISLNK(facts.st_mode):
            self._link(name, path)
        elif stat.S_ISDIR(facts.st_mode):
            self._folder(name, path, facts)
        elif stat.S_ISREG(facts.st_mode):
            self.files[name] = self._content(path, executable=bool(facts.st_mode & 0o100))
        else:
            self.files[name] = f"special {stat.S_IFMT(facts.st_mode)}"

    def _link(self, name: str, path: Path) -> None:
        target = os.fsencode(path.readlink()).decode("utf-8", "surrogateescape")
        self.files[name] = f"link {target}"
        real = os.path.realpath(path)
        if not real.startswith(str(self.root).rstrip("/") + "/"):
            return
        try:
            facts = Path(real).stat()
        except OSError:
            return
        if stat.S_ISDIR(facts.st_mode):
            self._folder(name, Path(real), facts)
        elif stat.S_ISREG(facts.st_mode):
            self.files[name] += f" {self._content(Path(real), executable=bool(facts.st_mode & 0o100))}"

    def _folder(self, name: str, path: Path, facts: os.stat_result) -> None:
        if (facts.st_dev, facts.st_ino) in self._folders:
            return  # a link that leads in a circle, or to what was seen
        self._folders.add((facts.st_dev, facts.st_ino))
        try:
            inner = sorted(item.name for item in path.iterdir())
        except OSError as error:
            self.files[name] = f"unreadable {error.errno}"
            return
        for item in inner:
            self.add(f"{name}/{item}")

    def _content(self, path: Path, *, executable: bool) -> str:
        content = hashlib.sha256(b"x" if executable else b"-")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return f"unreadable {error.errno}"
        with os.fdopen(descriptor, "rb") as file:
            while piece := file.read(_PIECE):
                self._bytes += len(piece)
                if self._bytes > MAX_BYTES:
                    self.excess = (
                        f"The configuration of agents here is above {MAX_BYTES // 2**20} MiB, too much to look at."
                    )
                    break
                content.update(piece)
        return content.hexdigest()


def _whole(files: dict[str, str]) -> str:
    """Return the digest of all files together."""
    whole = hashlib.sha256()
    for path, value in sorted(files.items()):
        whole.update(f"{path}\0{value}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _holds(record: dict[str, Any], now: Allowed) -> bool:
    """Tell whether a record's trust covers what is there now."""
    return record["trusted"] and now.excess is None and now.hash in {record["hash"], *record["foreseen"]}


def _difference(record: dict[str, Any], now: Allowed) -> list[str]:
    """Return what changed, in words: what is allowed now and was not, then the files."""
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
    return [printable(line) for line in lines[:200]]


def _path(workspace: Path, state: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()
    return state / "trust" / f"{name}.json"


def _read(workspace: Path, state: Path) -> dict[str, Any] | None:
    """Return the record, or ``None`` when there is none that can be relied on."""
    try:
        descriptor = os.open(_path(workspace, state), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        # Another user's record, or one that others may write, is nobody's word.
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
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
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
    from understudy.config.locks import folder_lock  # noqa: PLC0415 - only when something is written

    try:
        (state / "trust").mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unavailable(state / "trust", error) from error
    with folder_lock(state / "trust"):
        yield


def _unavailable(path: Path, error: OSError) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.STORE_UNAVAILABLE,
        f"{path} cannot be written: {error.strerror}.",
        hint="Make the state folder writable, or set UNDERSTUDY_STATE to another one.",
    )


def _name(workspace: Path) -> str:
    return os.fsencode(os.path.realpath(workspace)).decode("utf-8", "surrogateescape")
