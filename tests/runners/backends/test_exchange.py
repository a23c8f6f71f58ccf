"""Tests of the requests that a model server gets at once, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import agent_model_server as scripted
import pytest
from model_tasks import model_task, outcome_of

from understudy.config.validation.server_rules import check_server
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Event, Note
from understudy.model.errors import ErrorKind
from understudy.runners.backends import exchange
from understudy.runners.backends.openai import Runner
from understudy.runners.runner import Outcome

HOLD = """
import sys, time
from understudy.model.config.delegators import ModelServer
from understudy.runners.backends import exchange
server = ModelServer(name="theirs", kind="custom", base_url=sys.argv[1], max_concurrent=int(sys.argv[2]))
slot = exchange.take_slot(server)
print("held" if slot else "none", flush=True)
time.sleep(60)
"""

PAUSE = """
import sys
from understudy.model.config.delegators import ModelServer
from understudy.runners.backends import exchange
exchange.hold(ModelServer(name="theirs", kind="custom", base_url=sys.argv[1]), "good", 1.0)
"""


@pytest.fixture
def holders(own_home):
    """Starts processes that try to hold a slot; returns what they got."""
    _ = own_home
    started: list[subprocess.Popen[str]] = []

    def start(base_url: str, most: int) -> tuple[subprocess.Popen[str], str]:
        arguments = [sys.executable, "-c", HOLD, base_url, str(most)]
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout is not None
        return child, child.stdout.readline().strip()

    yield start
    for child in started:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def a_server(base_url: str, most: int) -> ModelServer:
    return ModelServer(name="ours", kind="custom", base_url=base_url, max_concurrent=most)


def test_two_processes_never_exceed_the_limit_and_a_killed_one_frees_its_slot(holders) -> None:
    url = "http://127.0.0.1:9/v1"
    first, got = holders(url, 2)
    assert got == "held"
    mine = exchange.take_slot(a_server(url, 2))
    assert mine is not None
    assert holders(url, 2)[1] == "none"
    assert exchange.take_slot(a_server("http://127.0.0.1:9/other", 2)) is None, "the same server"
    other = exchange.take_slot(a_server("http://127.0.0.1:10/v1", 2))
    assert other is not None
    first.send_signal(signal.SIGKILL)
    first.wait()
    freed = exchange.take_slot(a_server(url, 2))
    assert freed is not None
    assert exchange.take_slot(a_server(url, 2)) is None
    for slot in (mine, freed, other):
        slot.free()
        slot.free()
    assert exchange.take_slot(a_server(url, 1)) is not None


async def test_a_request_waits_for_its_turn_and_frees_it(holders, tmp_path: Path) -> None:
    with scripted.ModelServer() as server:
        entry = a_server(server.base_url, 1)
        task = model_task(entry, tmp_path)
        holder, got = await asyncio.to_thread(holders, server.base_url, 1)
        assert got == "held"
        events: list[Event] = []
        waiting = asyncio.create_task(Runner(backoff_seconds=0.01).run(task, events.append))
        async with asyncio.timeout(20):
            while not any(isinstance(event, Note) and "1 at once" in event.text for event in events):
                await asyncio.sleep(0.01)
        assert not server.requests
        os.kill(holder.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            outcome = await waiting
        assert outcome.text == scripted.TEXT
        assert isinstance((await outcome_of(task))[0], Outcome), "it freed its slot"
        slot = exchange.take_slot(entry)
        assert slot is not None
        slot.free()


async def test_requests_of_all_processes_wait_together_after_a_refusal(own_home, tmp_path: Path) -> None:
    _ = own_home
    with scripted.ModelServer() as server:
        entry = ModelServer(name="ours", kind="custom", base_url=server.base_url)
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", PAUSE, server.base_url], check=True)
        assert 0 < exchange.held_seconds(entry, "good") <= 1.0
        began = time.time()
        until = began + exchange.held_seconds(entry, "good")
        found = await asyncio.gather(*(outcome_of(model_task(entry, tmp_path)) for _ in range(3)))
        assert all(isinstance(outcome, Outcome) for outcome, _ in found)
        assert time.time() >= until
        notes = [event.text for _, events in found for event in events if isinstance(event, Note)]
        assert len(notes) == 3
        assert all("asked others to wait" in text for text in notes)
        assert exchange.held_seconds(entry, "good") == 0


async def test_a_refusal_is_passed_on_to_other_processes(own_home, tmp_path: Path) -> None:
    _ = own_home
    with scripted.ModelServer() as server:
        entry = ModelServer(name="ours", kind="custom", base_url=server.base_url)
        held: list[float] = []

        def emit(event: Event) -> None:
            if isinstance(event, Note) and "Retrying in" in event.text:
                held.append(exchange.held_seconds(entry, "429_ms"))

        await Runner(backoff_seconds=5.0).run(model_task(entry, tmp_path, model="429_ms"), emit)
        assert len(held) == 1
        error, _ = await outcome_of(model_task(entry, tmp_path, model="500"), retries=1)
        assert error.kind is ErrorKind.OVERLOADED
        assert exchange.held_seconds(entry, "500") == 0, "an error of the server is not a limit"
        assert exchange.held_seconds(entry, "good") == 0, "a limit is that of one model"


def test_a_pause_that_makes_no_sense_holds_nothing(own_home) -> None:
    _ = own_home
    entry = ModelServer(name="ours", kind="custom", base_url="http://127.0.0.1:9/v1")
    exchange.hold(entry, "good", 30.0)
    exchange.hold(entry, "good", 1.0)
    assert exchange.held_seconds(entry, "good") > 25, "the longer one stays"
    [place] = (own_home / "state").rglob("until-*")
    for content in (b"", b"soon", b"9e99", b"nan", b"-1", b"\xff" * 100):
        place.write_bytes(content)
        assert exchange.held_seconds(entry, "good") == 0.0
    place.unlink()
    place.mkdir()
    assert exchange.held_seconds(entry, "good") == 0.0
    exchange.hold(entry, "good", 1.0)


@pytest.mark.parametrize(("most", "problems"), [(0, 1), (-1, 1), (1001, 1), (1, 0), (1000, 0)])
def test_limits_that_make_no_sense_are_refused(most: int, problems: int) -> None:
    found = [one for one in check_server(a_server("http://127.0.0.1:9/v1", most)) if one.path == ("max_concurrent",)]
    assert len(found) == problems
