"""A delegation to write about, and second processes that write, read and die."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from journals import spec_of_a_test
from wait_until import until

from understudy.journal import delegation_folder
from understudy.model.delegation.spec import Spec

PRELUDE = """
import os, sys, time, signal
from pathlib import Path
from understudy.journal import change_notifications, delegation_folder, reader, worker_files
from understudy.journal.writing import dead_workers
from understudy.journal.summaries import fold
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.states import *; from understudy.model.verdicts import *
from understudy.model.errors import *
from understudy.process import identity
def folder(): return delegation_folder.open_folder(sys.argv[1])
def say(*words): print(*words, flush=True)
"""


def spec_for(delegation_id: str, **changes) -> Spec:
    return spec_of_a_test(delegation_id, **{"title": "Tests for a module"} | changes)


@pytest.fixture
def make() -> Iterator[Callable[..., tuple[delegation_folder.Folder, int]]]:
    """Make delegations; their locks are closed at the end."""
    descriptors: list[int] = []

    def new(**changes) -> tuple[delegation_folder.Folder, int]:
        folder, lock = delegation_folder.create(lambda name: spec_for(name, **changes), {})
        descriptors.append(lock)
        return folder, lock

    yield new
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class Second:
    """Another process that runs Python on one delegation."""

    def __init__(self, folder: delegation_folder.Folder, code: str, *, lock: int | None = None, **popen) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, folder.id, *([] if lock is None else [str(lock)])],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            pass_fds=() if lock is None else (lock,),
            **popen,
        )
        self.pid = self.process.pid

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(60)
        self.process.stdout.close()
        self.process.stdin.close()
        return code


@pytest.fixture
def second() -> Iterator[Callable[..., Second]]:
    """Start second processes; none survives the test."""
    started: list[Second] = []

    def start(*args, **kwargs) -> Second:
        started.append(Second(*args, **kwargs))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(60)
        one.process.stdout.close()
        one.process.stdin.close()


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait for a condition, with a deadline."""

    def wait(condition: Callable[[], object], seconds: float = 60.0) -> None:
        until(condition, "it did not come true", seconds=seconds)

    return wait


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    return spec_for
