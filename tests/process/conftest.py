"""Finding processes by a tag in their arguments, and ending those which a test leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


def _living(tag: str) -> dict[int, str]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if tag.encode() in arguments and state not in {b"Z", b"X"}:
            found[int(folder.name)] = arguments.split(b"\0")[0].decode().rpartition(":")[2]
    return found


class Tagged:
    """The processes whose arguments hold one unique text."""

    def __init__(self) -> None:
        self.tag = f"tag{uuid.uuid4().hex}"

    def pids(self) -> dict[int, str]:
        return _living(self.tag)

    def roles(self) -> list[str]:
        return sorted(self.pids().values())

    def gone(self, but: frozenset[str] = frozenset(), seconds: float = 60.0) -> list[str]:
        """Wait until only these roles are left; return the roles that are left."""
        deadline = time.monotonic() + seconds
        while (left := [role for role in self.roles() if role not in but]) and time.monotonic() < deadline:
            time.sleep(0.005)
        return left


@pytest.fixture
def tagged() -> Iterator[Tagged]:
    one = Tagged()
    yield one
    deadline = time.monotonic() + 60
    while (left := one.pids()) and time.monotonic() < deadline:
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait for a condition, at most a minute."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.005)

    return wait
