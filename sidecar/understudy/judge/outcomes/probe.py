"""Start the probe in the programs of a check, and receive what it reports.

The modules of ``injected`` are copied into a folder of the run. The names of modules, of the plugin and of the variable
differ in every run. Only the copies are on the project's import path.

What they report comes through a named pipe. Each line is ``SIGNATURE SESSION NUMBER FLAG TEXT``. The signature (BLAKE2b
with the key of the session) covers the rest, the number counts the lines of a session from 0, and the texts of lines up
to one with the flag ``.`` are one JSON object. What was received stays received, so a report cannot be shortened
afterwards.

A probe asks for its session and key at a socket before it loads tests. Each process gets one answer, and what it starts
afterwards gets none. So no environment and no file has a key, whatever make, a shell or a script passes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.process import identity, pipes
from understudy.process.guardian import marked_processes

_KEEP_GOING = " --continue-on-collection-errors"
_MODULES = ("understudy_report", "understudy_pytest", "understudy_unittest", "understudy_lines")
_NODE_HOOK = "node_hook.cjs"
_MOST_BYTES = 64 * 1024 * 1024
"""Most bytes that are kept; the reports of 100,000 tests with long names are smaller."""
_READ_BYTES = 64 * 1024
_KEY_BYTES = 32
_SIGNATURE_BYTES = 16
_NAME_BYTES = 8
_KIND_BYTES = 20
"""The beginning of an entry, which has its kind."""
_MOST_WAITING = 4096
"""Processes of one check that ask for a key at the same time; a kernel may allow fewer. Others wait to connect."""

Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """What the probe of one run does."""

    root: Path
    """The user's checkout: loaded files below it are reported."""
    collect_only: bool = False
    keep_going: bool = False
    """pytest runs the other files if one cannot be collected."""
    without_coverage: bool = False
    """pytest-cov does nothing, whatever the project's options are."""
    order: str = ""
    """``reversed`` or ``shuffled:<seed>``."""
    lines: Path | None = None
    """A JSON file for unittest: ``files`` whose lines are recorded, and ``out`` to write them to."""
    only: Path | None = None
    """A JSON file for unittest: the ids of the tests to run, up to the first that fails."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The copies of one run."""

    folder: Path
    names: dict[str, str]
    """The module's own name → the name of its copy."""

    @property
    def unittest(self) -> str:
        """Return the module that runs unittest."""
        return self.names["understudy_unittest"]


def write_probe(folder: Path) -> Probe:
    """Write the copies into a new folder below ``folder``."""
    target = folder / secrets.token_hex(6)
    return Probe(folder=target, names=write_copies(target, _MODULES))


def write_copies(folder: Path, modules: Sequence[str]) -> dict[str, str]:
    """Copy modules that are injected into tests to a new folder; return the names of the copies by their own names.

    In ``modules``, a dot stands for a folder; only the names of modules outside folders change.
    """
    names = {name: f"m{secrets.token_hex(6)}" for name in modules if "." not in name}
    for module in modules:
        *folders, name = module.split(".")
        text = PROBE_FOLDER.joinpath(*folders, f"{name}.py").read_text(encoding="utf-8")
        for other, renamed in names.items():
            text = text.replace(other, renamed)
        copy = folder.joinpath(*folders, f"{names.get(module, name)}.py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return names


def add_probe(environment: dict[str, str], probe: Probe, channel: ReportChannel, options: ProbeOptions) -> None:
    """Add to the environment of a check what makes pytest, unittest and Node load the probe."""
    report, plugin = probe.names["understudy_report"], probe.names["understudy_pytest"]
    addopts = f"-p {plugin}"
    if options.collect_only:
        addopts += " --collect-only"
    if options.keep_going:
        addopts += _KEEP_GOING
    settings: dict[str, object] = {
        "channel": str(channel.path),
        "keys": str(channel.keys),
        "root": str(options.root),
        "folder": str(probe.folder),
        "addopts": addopts,
        "no_coverage": options.without_coverage,
        "to_the_end": options.keep_going,
        "order": options.order,
        "collect": options.collect_only,
        "lines": str(options.lines or ""),
        "only": str(options.only or ""),
    }
    folders = [str(probe.folder), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment[report] = json.dumps(settings)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    environment["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} {addopts}".strip()
    # Node parses NODE_OPTIONS like a shell: in quotes, with backslashes escaped (see `node --help`).
    script = str(write_node_hook(probe.folder, channel.path.parent, options.root))
    script = script.replace("\\", "\\\\").replace('"', '\\"')
    environment["NODE_OPTIONS"] = f'{environment.get("NODE_OPTIONS", "")} --require "{script}"'.strip()


def write_node_hook(folder: Path, reports: Path, root: Path) -> Path:
    """Write the module that reports to the folder ``reports`` which files below ``root`` Node loads."""
    text = (PROBE_FOLDER / _NODE_HOOK).read_text(encoding="utf-8")
    script = folder / f"m{secrets.token_hex(6)}.cjs"
    values = json.dumps({"folder": str(reports), "root": str(root)})
    script.write_text(text.replace("globalThis.SETTINGS", values), encoding="utf-8")
    return script


@dataclass(frozen=True, kw_only=True)
class Received:
    """The entries of all sessions, and what was wrong with the lines."""

    sessions: tuple[tuple[Entry, ...], ...] = ()
    """The entries of each process that reported, in their order."""
    forged: int = 0
    """Lines without a valid signature, or sent twice."""
    missing: bool = False
    """A session lacks lines that it sent."""
    refused: int = 0
    """Requests for a key from processes that have one, or that were started by such a process: by tests."""


@dataclass(kw_only=True)
class _Session:
    next: int = 0
    parts: list[bytes] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


class ReportChannel:
    """A named pipe in ``folder``, and a socket that gives out keys, for the running event loop inside ``with``."""

    def __init__(self, folder: Path, counted: Callable[[int, int], None] | None = None) -> None:
        """Create the pipe; ``counted`` gets how many tests have ended, and of how many, as often as that changes."""
        self._counter = None if counted is None else _Counter(counted)
        self.path = folder / secrets.token_hex(6)
        self._keys: dict[bytes, bytes] = {}
        self._data = bytearray()
        self._overflow = False
        self._refused = 0
        self._answered: set[identity.Identity] = set()
        self._program: identity.Identity | None = None
        self._sockets = pipes.socket_folder(folder / secrets.token_hex(6))
        self.keys = self._sockets / secrets.token_hex(6)
        """The path of the socket."""
        os.mkfifo(self.path, 0o600)

    def __enter__(self) -> Self:
        """Start to read; processes that ask for a key wait for ``answer``."""
        # Opened for writing, too: otherwise the file ends whenever no process has it open, although another may follow.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, self._descriptor)
            self._listener = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._listener.setblocking(False)
            self._listener.bind(str(self.keys))
            self._listener.listen(_MOST_WAITING)
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read what is left, and remove the pipe and the socket."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        loop.remove_reader(self._descriptor)
        while self._read():
            pass
        self._opened.close()
        with contextlib.suppress(OSError):  # a test may have removed it
            self.path.unlink()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def answer(self, program: identity.Identity | None) -> None:
        """Give keys to ``program``, the one that the check started, and to what it starts; to none if it has ended.

        Without ``/proc``, ``program`` is None, and every process gets a key.
        """
        self._program = program
        if program is not None or not marked_processes.has_proc():
            asyncio.get_running_loop().add_reader(self._listener, self._give)

    def _give(self) -> None:
        try:
            connection = self._listener.accept()[0]
        except OSError:  # it has given up
            return
        with connection, contextlib.suppress(OSError):
            if self._may_sign(identity.peer_pid(connection)):
                connection.sendall(b"%s %s" % self.new_session())

    def new_session(self) -> tuple[bytes, bytes]:
        """Return the name and the key of a new session, in hexadecimal."""
        name, key = secrets.token_hex(_NAME_BYTES).encode(), secrets.token_bytes(_KEY_BYTES)
        self._keys[name] = key
        return name, key.hex().encode()

    def _may_sign(self, pid: int | None) -> bool:
        """Return whether a process may have a key, and remember that it has one.

        An orphan may not: which process started it is unknown.
        """
        line = [] if pid is None else list(marked_processes.lineage(pid))
        if self._answered.intersection(line):
            self._refused += 1
            return False
        if self._program is not None and self._program not in line:
            return False
        self._answered.update(line[:1])
        return True

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        room = _MOST_BYTES - len(self._data)
        self._data += data[:room]
        if self._counter is not None:
            self._counter.read(data[:room])
        self._overflow = self._overflow or len(data) > room
        return not self._overflow

    def received(self) -> Received:
        """Return what was received so far."""
        received = verified(bytes(self._data), self._keys, cut_off=self._overflow)
        return dataclasses.replace(received, refused=self._refused)


class _Counter:
    """Counts the tests that have ended while a check runs, for its progress only: what it reads is not verified."""

    def __init__(self, counted: Callable[[int, int], None]) -> None:
        self._counted = counted
        self._rest = b""
        self._parts: list[bytes] = []
        self._done = 0
        self._collected: dict[bytes, int] = {}

    def read(self, data: bytes) -> None:
        """Count what further lines of the report say."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        before = self._done
        for line in lines:
            session, _, flag_and_text = line.partition(b" ")[2].partition(b" ")
            flag, _, text = flag_and_text.partition(b" ")[2].partition(b" ")
            self._parts.append(text)
            if flag == b".":
                self._take(session, b"".join(self._parts))
                self._parts.clear()
        if self._done != before:
            self._counted(self._done, max(self._done, sum(self._collected.values())))

    def _take(self, session: bytes, text: bytes) -> None:
        kind = text[:_KIND_BYTES].replace(b" ", b"")
        if kind.startswith(b'{"k":"test"'):
            self._done += 1
        elif kind.startswith(b'{"k":"collected"'):
            for entry in _entry(text):
                ids = entry.get("ids")
                number = len(ids) if isinstance(ids, list) else 0
                self._collected[session] = max(number, self._collected.get(session, 0))


def verified(data: bytes, keys: Mapping[bytes, bytes], *, cut_off: bool = False) -> Received:
    """Return the entries with a valid signature; ``cut_off``: the end of the data was dropped.

    ``keys`` has the key of each session.
    """
    sessions: dict[bytes, _Session] = {}
    forged = 0
    missing = cut_off
    lines = data.split(b"\n")
    if lines[-1] == b"" or cut_off:
        lines.pop()
    for line in lines:
        signature, _, body = line.partition(b" ")
        key = keys.get(body.partition(b" ")[0])
        if key is None or not hmac.compare_digest(signature, _signature(body, key)):
            forged += 1
            continue
        name, number, flag, text = body.split(b" ", 3)
        session = sessions.setdefault(name, _Session())
        if int(number) < session.next:
            forged += 1
            continue
        if int(number) > session.next:
            missing = True
            session.parts.clear()
        session.next = int(number) + 1
        session.parts.append(text)
        if flag == b".":
            session.entries += _entry(b"".join(session.parts))
            session.parts.clear()
    return Received(
        sessions=tuple(tuple(session.entries) for session in sessions.values()), forged=forged, missing=missing
    )


def _signature(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_SIGNATURE_BYTES).hexdigest().encode()


def _entry(text: bytes) -> list[Entry]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []  # its first lines are missing, or it is not JSON
    return [value] if isinstance(value, dict) else []
