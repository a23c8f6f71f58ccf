"""Fixtures: delegations with real journals, and clients of `understudy rpc`; the `conftest.py` of a folder imports them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from forked import Forked

from understudy.journal import delegation_folder
from understudy.journal.writing.writer import Writer
from understudy.model.config.delegators import AppliesTo, Delegator, Limits, Recipe, Scope
from understudy.model.delegation.delegations import AskedBy, Delegation, Explanation, StartParams, no_usage
from understudy.model.delegation.spec import SPEC_VERSION, Bootstrap, Spec, SpecCandidate
from understudy.model.hunks import Review
from understudy.model.states import State

PATIENCE = 60.0


def spec_of_a_test(identifier: str, **changes) -> Spec:
    spec = Spec(
        version=SPEC_VERSION,
        id=identifier,
        title="Write tests: wrap.py",
        params=StartParams(recipe="tests"),
        recipe=Recipe(
            name="tests",
            title="Write tests",
            returns="tree",
            judged_by="new_tests",
            applies_to=AppliesTo(on=["file"]),
            scope=Scope.BUILTIN,
        ),
        workspace="/somewhere/project",
        candidates=[SpecCandidate(delegator=Delegator(name="quick", model="m"), limits=Limits())],
        explain=Explanation(delegator="quick", candidates=[], reason="you asked for it"),
        files=[],
        context=[],
        checks=[],
        slots=2,
        bootstrap=Bootstrap(copy=[], link=[], setup=[], setup_timeout_seconds=1.0),
        trusted=True,
        asked_by=AskedBy(frontend="cli", depth=0),
        created_at="2026-11-21T00:45:12.000Z",
        buffers={},
        notes=[],
    )
    return msgspec.structs.replace(spec, **changes)


def delegation_of_a_test(**changes) -> Delegation:
    found = Delegation(
        asked_by=AskedBy(frontend="cli", depth=0),
        id="20261121-004512-k3f9q",
        title="Write tests: wrap.py",
        recipe="tests",
        state=State.FINISHED,
        reservations=[],
        workspace="/somewhere/project",
        delegator="quick",
        attempts=[],
        checks=[],
        review=Review(pending=0, accepted=0, rejected=0),
        confined=False,
        usage=no_usage(),
        cost_known=False,
        started_at="2026-11-21T00:45:12.000Z",
        finished_at="2026-11-21T00:46:22.500Z",
        last_seq=9,
    )
    return msgspec.structs.replace(found, **changes)


@pytest.fixture
def delegation() -> Callable[..., Delegation]:
    return delegation_of_a_test


@pytest.fixture
def journal() -> Iterator[Callable[..., Writer]]:
    """Open journals that this process holds."""
    with contextlib.ExitStack() as stack:

        def new(**changes) -> Writer:
            folder, lock = delegation_folder.create(lambda name: spec_of_a_test(name, **changes), {})
            stack.callback(os.close, lock)
            return stack.enter_context(Writer(folder, lock))

        yield new


class RpcClient:
    """A program that talks to ``understudy rpc`` on its stdin and stdout."""

    def __init__(self, *arguments: str, cold: bool = False, **popen) -> None:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        if cold:
            self.process = subprocess.Popen([sys.executable, "-m", "understudy", "rpc", *arguments], **streams, **popen)
        else:
            self.process = Forked(["rpc", *arguments], **streams, **popen)
        self.arrived: queue.Queue[Any] = queue.Queue()
        self.raw: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.raw.append(line)
            self.arrived.put(json.loads(line))
        self.arrived.put(None)

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, identifier: Any, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "id": identifier, "method": f"understudy/{method}"}
        self.write(json.dumps(message | ({} if params is None else {"params": params})).encode() + b"\n")

    def next(self, seconds: float = PATIENCE) -> Any:
        return self.arrived.get(timeout=seconds)

    def end(self) -> list[Any]:
        """Close stdin and return whatever still came; the server must end by itself, well and silently."""
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self._reader.join(PATIENCE)
        left = []
        while (message := self.arrived.get(timeout=PATIENCE)) is not None:
            left.append(message)
        assert b"Traceback" not in self.process.stderr.read()
        return left


@pytest.fixture
def rpc() -> Iterator[Callable[..., RpcClient]]:
    clients: list[RpcClient] = []

    def start(*arguments: str, **popen) -> RpcClient:
        clients.append(RpcClient(*arguments, **popen))
        return clients[-1]

    yield start
    for client in clients:
        with contextlib.suppress(OSError):
            client.process.stdin.close()
        if client.process.poll() is None:
            client.process.kill()
        client.process.wait()
        client._reader.join(PATIENCE)
        client.process.stdout.close()
        client.process.stderr.close()
