"""A delegation to write about, and second processes that write, read and die."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from understudy.journal import store
from understudy.model.delegations import Explanation, StartParams
from understudy.model.delegators import Delegator, Fits, Recipe, Scope
from understudy.model.spec import SPEC_VERSION, Bootstrap, Spec

PRELUDE = """
import os, sys, time, signal
from pathlib import Path
from understudy.journal import store, locks, summary, reader, control, recover, bell
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.states import *
from understudy.model.errors import *
from understudy.process import identity
def folder(): return store.open_folder(sys.argv[1])
def say(*words): print(*words, flush=True)
"""


def spec_for(delegation_id: str, **changes) -> Spec:
    spec = Spec(
        version=SPEC_VERSION,
        id=delegation_id,
        title="Tests for a module",
        params=StartParams(recipe="tests"),
        recipe=Recipe(name="tests", title="Tests", returns="tree", fits=Fits(on=["file"]), scope=Scope.BUILTIN),
        workspace="/somewhere/project",
        delegator=Delegator(name="quick", model="m"),
        explain=Explanation(delegator="quick", tried=[], because="asked for"),
        files=[],
        context=[],
        checks=[],
        slots=2,
        bootstrap=Bootstrap(copy=[], link=[], setup=[], setup_timeout_seconds=1.0),
        trusted=True,
        created_at="2026-11-21T00:45:12.000Z",
        buffers={},
        notes=[],
    )
    return msgspec.structs.replace(spec, **changes)


@pytest.fixture
def make() -> Iterator[Callable[..., tuple[store.Folder, int]]]:
    """Make delegations; their locks are closed at the end."""
    descriptors: list[int] = []

    def new(**changes) -> tuple[store.Folder, int]:
        folder, lock = store.create(lambda name: spec_for(name, **changes), {})
        descriptors.append(lock)
        return folder, lock

    yield new
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class Second:
    """Another process that runs Python on one delegation."""

    def __init__(self, folder: store.Folder, code: str, *, lock: int | None = None, **popen) -> None:
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
        code = self.process.wait(30)
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
        one.process.wait(30)
        one.process.stdout.close()
        one.process.stdin.close()


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait for a condition, with a deadline."""

    def wait(condition: Callable[[], object], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come true"
            time.sleep(0.002)

    return wait


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    return spec_for
