"""Record which workspaces the user trusts, and with which content.

Trust is bound to a digest of all files in the workspace that start programs or instruct agents without asking the user:
Understudy's own folder, the configuration of agent CLIs, whose hooks and servers an agent starts without asking, and
the tracked programs that checks and delegators start. When any of it changes, the user is asked again and shown what
changed. The records are in the state folder, one file per workspace. Instructions for people and agents
(CLAUDE.md) are not covered: they are text and do not start anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.config.configuration import Configuration
from understudy.config.loading.loader import load
from understudy.config.trust import effects
from understudy.files.durable import folder_lock, replace
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.sanitize import visible_line
from understudy.model.wire import timestamp

MAX_RECORD_BYTES = 4 * 1024 * 1024
_MOST_CHANGES = 200
_revoked: ContextVar[Callable[[Path], bool] | None] = ContextVar("revoked", default=None)
SHARED = (
    ".understudy",
    ".worktreeinclude",  # lists what is copied into worktrees
    ".mcp.json",
    ".vscode/mcp.json",
)
"""Covered paths besides those that tools declare."""
MAX_FILES = 4000
MAX_BYTES = 64 * 1024 * 1024
"""Limits of the covered files; a workspace that exceeds them cannot be trusted."""
CHANGING = "The configuration files of agents keep changing while Understudy reads them."
"""Why a workspace cannot be trusted whose files another program keeps writing."""
_MOST_TRIES = 5
_TICK_SECONDS = 0.02
"""Longer than the clock of any usual file system needs to go on; Linux's goes on every 1 to 10 ms."""
_PIECE = 1024 * 1024
_SHOWN_CHARACTERS = 4000
"""The length of one line that describes what trust allows; far longer than any honest command."""


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

    def why_not(self, workspace: Path) -> str:
        """Return why ``workspace`` is not trusted, as the beginning of a sentence."""
        if not self.changed:
            return f"{workspace} is not trusted"
        more = f" and {len(self.changed) - 1} more" if self.changed[1:] else ""
        return f"{workspace} has changed since you trusted it ({self.changed[0]}{more})"


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
    try:
        replace(path, json.dumps(content, indent=1).encode("ascii"), sync=True, several_writers=True)
    except OSError as error:
        raise _unavailable(path, error) from error


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[None]:
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


@dataclass(frozen=True)
class Allowed:
    """What trusting a workspace would allow now."""

    hash: str
    """Empty if the descriptions may belong to other contents."""
    allows: list[str]
    """Descriptions, the most far-reaching first; safe to print on a terminal."""
    files: dict[str, str]
    """Path inside the workspace → digest of its content."""
    excess: str | None = None
    """Why the workspace cannot be trusted at all."""


def watched(configuration: Configuration | None) -> list[str]:
    """Return the paths that are covered, relative to a workspace; a folder covers everything below it.

    Without a configuration, those of tools that files define are missing.
    """
    declared = (path.path.rstrip("/") for tool in effects.obeying(configuration) for path in tool.repository_paths)
    return list(dict.fromkeys([*SHARED, *declared]))


def digest(workspace: Path) -> Allowed:
    """Return what trusting ``workspace`` allows; starts nothing, and follows links inside the workspace only.

    The descriptions belong to the digest: no file changed from before they were made until after that.
    """
    root = Path(os.path.realpath(workspace))
    before = _settled(root, watched(None))
    for _ in range(_MOST_TRIES):
        configuration = load(root, trusted=True)  # what would apply; reading it starts no program
        names = watched(configuration)
        walk = _Walk(root, names)
        covered = walk.seen()
        for name in effects.tracked_programs(root, configuration):
            walk.add(name)
        words = [visible(line) for line in effects.describe_effects(root, sorted(walk.files), configuration)]
        if before.seen() == covered == _Walk(root, names).seen():
            return Allowed(digest_of(walk.files), words, walk.files, walk.excess)
        before = _settled(root, names)
    # No answer to a question with these descriptions may count for any content.
    return Allowed("", words, walk.files, walk.excess or CHANGING)


def _settled(root: Path, names: list[str]) -> _Walk:
    """Walk so that each later change shows: two changes in the same tick of the clock leave a file the same times."""
    began = time.time_ns()
    walk = _Walk(root, names)
    if began - walk.newest < _TICK_SECONDS * 1e9:
        time.sleep(_TICK_SECONDS)
        walk = _Walk(root, names)
    return walk


class _Walk:
    """Collect the digests of the covered files, within limits."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self.excess: str | None = None
        self.newest = 0
        """When the last of them changed, in nanoseconds since 1970."""
        self._facts: dict[str, list[int]] = {}
        self._bytes = 0
        self._folders: set[tuple[int, int]] = set()
        for name in names:
            self.add(name)

    def seen(self) -> tuple[dict[str, str], dict[str, list[int]]]:
        """Return a copy of all contents, and of what differs after any change, even if it changed back afterwards."""
        return dict(self.files), {name: list(facts) for name, facts in self._facts.items()}

    def _note(self, name: str, facts: os.stat_result) -> None:
        self.newest = max(self.newest, facts.st_ctime_ns)
        self._facts.setdefault(name, []).extend(
            [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
        )

    def add(self, name: str) -> None:
        """Add a file, or a folder with all its contents, if it exists."""
        path = self.root / name
        try:
            facts = path.lstat()
        except OSError:
            return
        if self.excess is not None:
            return
        self._note(name, facts)
        if len(self.files) >= MAX_FILES:
            self.excess = f"More than {MAX_FILES} files configure agents here, which is too many to check."
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
        self._note(name, facts)
        if stat.S_ISDIR(facts.st_mode):
            self._folder(name, Path(real), facts)
        elif stat.S_ISREG(facts.st_mode):
            self.files[name] += f" {self._content(Path(real), executable=bool(facts.st_mode & 0o100))}"

    def _folder(self, name: str, path: Path, facts: os.stat_result) -> None:
        if (facts.st_dev, facts.st_ino) in self._folders:
            return  # a link in a circle, or to a folder already visited
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
                    self.excess = f"The agents' configuration here exceeds {MAX_BYTES // 2**20} MiB, too much to check."
                    break
                content.update(piece)
        return content.hexdigest()


def digest_of(files: dict[str, str]) -> str:
    """Return the digest of all files together."""
    whole = hashlib.sha256()
    for path, value in sorted(files.items()):
        whole.update(f"{path}\0{value}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def visible(text: str) -> str:
    """Return ``text`` on one line, safe to print; beyond ``_SHOWN_CHARACTERS``, say how much is left out."""
    line = visible_line(text)
    left = len(line) - _SHOWN_CHARACTERS
    return line if left <= 0 else f"{line[:_SHOWN_CHARACTERS]}… and {left} more characters, WHICH ARE NOT SHOWN"
