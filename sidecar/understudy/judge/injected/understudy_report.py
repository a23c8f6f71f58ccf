"""Send the report of a test run to the process that started the check: one signed entry after another.

The first entry is ``start`` and the last is ``end``, so the report of a run that was killed or that called ``os._exit``
is recognised as incomplete. Each entry has a number and a signature. The process of the check gives each process one
key, which this one asks for before the first test is imported.
"""

from __future__ import annotations

import _socket  # "socket" would be loaded in the runs with a probe only, and a test may look at what is loaded
import hashlib
import importlib.util
import json
import os
import random
import select
import sys
from typing import Any, Callable, Dict, List, Optional, Set  # noqa: UP035 - Python 3.8

_RECORD_BYTES = min(select.PIPE_BUF, 4096)
"""Writes to a pipe of at most this many bytes are atomic."""
_HEAD_BYTES = 96
_SIGNATURE_BYTES = 16

_LOADED_SUFFIXES = (".py", ".pyc", ".pyd", ".so")
_MOST_OPENED = 50_000
"""Most opened files to remember; a very large program has fewer modules."""
_MOST_ENVIRONMENT = 8 * 1024 * 1024
_ANSWER_SECONDS = 60.0
"""The process of the check answers at once, unless the machine is very busy."""


class Settings:
    """The settings of the probe, which the check passes in the environment."""

    def __init__(self, values: Dict[str, Any]) -> None:  # noqa: UP006 - Python 3.8
        """Read the settings from ``values``; in a process that asks for a key, they name where."""
        self.values = {name: value for name, value in values.items() if name not in {"keys", "channel"}}
        self.root: str = values.get("root", "")
        self.addopts: str = values.get("addopts", "")
        self.order: str = values.get("order", "")
        self.no_coverage = bool(values.get("no_coverage"))
        self.to_the_end = bool(values.get("to_the_end"))
        """Run all tests, even if the check ends at the first failure."""
        self.folder: str = values.get("folder", "")
        self.collect_only = bool(values.get("collect"))
        self.lines: str = values.get("lines", "")
        """A JSON file that names the files whose executed lines are recorded, and where to; only for unittest."""
        self.only: str = values.get("only", "")
        """A JSON file with the ids of the tests to run, up to the first that fails; only for unittest."""
        self.recorder: Optional[Recorder] = None  # noqa: UP045
        """None in a process that gets no key: a worker of pytest-xdist, and what tests start."""
        answer = _ask(values["keys"]).split() if "keys" in values else []
        if answer:
            self.recorder = Recorder(
                values["channel"], answer[0].decode("ascii"), bytes.fromhex(answer[1].decode("ascii"))
            )


def take_settings() -> Optional[Settings]:  # noqa: UP045
    """Return the settings and remove them from the environment; None outside a check."""
    value = os.environ.pop(__name__, None)
    if value is None:
        return None
    _erase(__name__ + "=" + value)
    return Settings(json.loads(value))


def _ask(path: str) -> bytes:
    """Return the name and the key of this process's session; nothing if it gets none."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # With the timeout of Python, a connect fails at once while too many others wait; with this one, it waits.
        seconds = int(_ANSWER_SECONDS).to_bytes(8, sys.byteorder)  # and no microseconds: a struct timeval
        connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, seconds + bytes(8))
        connection.connect(path)
        connection.settimeout(_ANSWER_SECONDS)
        answer = b""
        while True:
            part = connection.recv(_RECORD_BYTES)
            if not part:
                return answer
            answer += part
    except OSError:
        return b""
    finally:
        connection.close()


def hide(settings: Settings) -> None:
    """Remove the modules of the probe from the import path and from the environment of child processes."""
    for variable, part in (("PYTHONPATH", settings.folder), ("PYTEST_ADDOPTS", settings.addopts)):
        before = os.environ.get(variable)
        if before is None or not part or part not in before:
            continue
        if variable == "PYTHONPATH":
            # An empty entry would stand for the current folder.
            rest = os.pathsep.join([entry for entry in before.split(os.pathsep) if entry != part])
        else:
            rest = before.replace(part, "", 1).strip()
        if rest:
            os.environ[variable] = rest
        else:
            del os.environ[variable]
        _erase(before)
    sys.path[:] = [entry for entry in sys.path if entry != settings.folder]
    for name, module in list(sys.modules.items()):
        if os.path.dirname(getattr(module, "__file__", None) or "") == settings.folder and name != "__main__":  # noqa: PTH120
            del sys.modules[name]


def _erase(text: str) -> None:
    """Overwrite ``text`` in the environment that the process was started with, which ``/proc/self/environ`` shows."""
    try:
        with open("/proc/self/stat", "rb") as stream:  # noqa: PTH123
            fields = stream.read().rpartition(b")")[2].split()
        start, size = int(fields[47]), int(fields[48]) - int(fields[47])  # `env_start` and `env_end` of proc(5)
        if not 0 < size < _MOST_ENVIRONMENT:
            return
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except (OSError, IndexError, ValueError):
        return  # not Linux, or not permitted
    try:
        content = os.fsencode(text)
        at = os.pread(memory, size, start).find(content)
        if at >= 0:
            os.pwrite(memory, b"\0" * len(content), start + at)
    except OSError:
        return
    finally:
        os.close(memory)


def reordered(tests: List[Any], order: str, groups: Callable[[Any], List[str]]) -> List[Any]:  # noqa: UP006
    """Return ``tests`` in another order; ``groups`` names the file and the class of a test, which stay together."""
    if order == "reversed":
        return list(reversed(tests))
    chance = random.Random(order)  # noqa: S311 - repeatable
    nested: Dict[str, Dict[str, List[Any]]] = {}  # noqa: UP006
    for test in tests:
        file, owner = groups(test)
        nested.setdefault(file, {}).setdefault(owner, []).append(test)
    ordered: List[Any] = []  # noqa: UP006
    files = list(nested.values())
    chance.shuffle(files)
    for classes in files:
        owners = list(classes.values())
        chance.shuffle(owners)
        for owned in owners:
            chance.shuffle(owned)
            ordered.extend(owned)
    return ordered


def _encoder() -> Callable[[Any], str]:
    """Return an encoder of JSON that uses no function which a test can replace in ``json``."""
    quote, kind, join = json.encoder.encode_basestring_ascii, isinstance, ", ".join

    def encode(value: Any) -> str:
        if kind(value, str):
            return quote(value)
        if kind(value, dict):
            return "{" + join([quote(name) + ": " + encode(item) for name, item in value.items()]) + "}"
        if kind(value, (list, tuple)):
            return "[" + join([encode(item) for item in value]) + "]"
        if value is None or kind(value, bool):
            return "null" if value is None else "true" if value else "false"
        return "%d" % value  # noqa: UP031 - `format` of a subclass can be replaced

    return encode


def _sender(channel: str, session: str, key: bytes) -> Callable[[Dict[str, Any]], None]:  # noqa: UP006
    """Return the function that sends an entry.

    Everything is bound here, because a test may replace functions of ``os``, ``json`` and ``hashlib`` (as pyfakefs
    does). The pipe is opened for each entry: a test may close all descriptors. If that fails, because a test has used
    all descriptors, the entry is sent with the next one.
    """
    encode, digest, hexadecimal = _encoder(), hashlib.blake2b, bytes.hex
    open_, write, close, blocking, process = os.open, os.write, os.close, os.set_blocking, os.getpid
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
    room, owner = _RECORD_BYTES - _HEAD_BYTES, os.getpid()
    number = 0
    waiting: List[bytes] = []  # noqa: UP006

    def send(entry: Dict[str, Any]) -> None:  # noqa: UP006
        if process() != owner:
            return  # a test forked, and its child went on in the test runner
        data = encode(entry).encode("ascii")
        for start in range(0, len(data), room):
            waiting.append((b"+ " if start + room < len(data) else b". ") + data[start : start + room])  # noqa: PERF401
        try:
            descriptor = open_(channel, flags)  # fails, rather than waits, if the check is over
        except OSError:
            return
        try:
            blocking(descriptor, True)
            transmit(descriptor)
        except OSError:
            return
        finally:
            close(descriptor)

    def transmit(descriptor: int) -> None:
        nonlocal number
        while waiting:
            body = ("%s %d " % (session, number)).encode("ascii") + waiting[0]  # noqa: UP031
            signature = digest(body, key=key, digest_size=_SIGNATURE_BYTES).digest()
            write(descriptor, hexadecimal(signature).encode("ascii") + b" " + body + b"\n")
            number += 1
            del waiting[0]

    return send


class Recorder:
    """Sends the report of one process."""

    __slots__ = ("_send",)

    def __init__(self, channel: str, session: str, key: bytes) -> None:
        """``channel`` is the path of a named pipe."""
        self._send = _sender(channel, session, key)

    def start(self, runner: str) -> None:
        """Send the first entry."""
        self.line(k="start", runner=runner, python=sys.version.split()[0])

    def line(self, **entry: Any) -> None:
        """Send one entry."""
        self._send(entry)

    def outcome(self, test: str, when: str, outcome: str) -> None:
        """Send the outcome of one phase (``setup``, ``call``, ``teardown``) of a test."""
        self._send({"k": "test", "id": test, "when": when, "outcome": outcome})


class Loaded:
    """Records the code files below a folder that this process loads."""

    def __init__(self, root: str) -> None:
        """Start recording files below ``root`` (links resolved); an empty ``root`` records nothing."""
        self._root = os.path.realpath(root) if root else ""
        self._opened: Set[str] = set()  # noqa: UP006
        if self._root:
            sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: Any) -> None:
        if event != "open" or len(self._opened) >= _MOST_OPENED:
            return
        path, mode = arguments[0], arguments[1]
        if isinstance(path, str) and path.endswith(_LOADED_SUFFIXES) and (mode is None or "r" in mode):
            self._opened.add(path)

    def files(self) -> List[str]:  # noqa: UP006
        """Return the loaded files below the root, links resolved, sorted."""
        if not self._root:
            return []
        names = set()
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str):
                names.add(name)
        below = set()
        for name in names | set(self._opened):
            resolved = os.path.realpath(name)
            if resolved.endswith(".pyc"):
                resolved = _source_of(resolved)
            if resolved.startswith(self._root + os.sep):
                below.add(resolved)
        return sorted(below)


def _source_of(compiled: str) -> str:
    try:
        return importlib.util.source_from_cache(compiled)
    except (RuntimeError, ValueError):  # the interpreter has no cache tag, or this is not the name of a compiled file
        return compiled
