"""The pipe of the probe: what is signed, what is missing, and who may write."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import queue
import shutil
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import program

from understudy.judge.mutant_runners import mutant_runs
from understudy.judge.outcomes import probe
from understudy.judge.outcomes.observations import read_probe
from understudy.judge.outcomes.probe import ProbeOptions, ReportChannel, add_probe, verified, write_probe
from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.model.delegation.delegations import Count
from understudy.process.call_checks import base_environment
from understudy.process.programs.children import run

KEY = b"k" * 32
KEYS = {b"a": KEY, b"b": KEY}


def line(session: str, number: int, text: str, *, flag: str = ".", key: bytes = KEY) -> bytes:
    body = f"{session} {number} {flag} {text}".encode()
    return hashlib.blake2b(body, key=key, digest_size=16).hexdigest().encode() + b" " + body + b"\n"


START, TEST, END = (json.dumps({"k": kind}) for kind in ("start", "test", "end"))


def test_signed_lines_are_entries_of_their_sessions() -> None:
    data = line("a", 0, START) + line("b", 0, START) + line("a", 1, '{"k": ', flag="+") + line("a", 2, '"end"}')
    found = verified(data, KEYS)
    assert found.sessions == (({"k": "start"}, {"k": "end"}), ({"k": "start"},))
    assert (found.forged, found.missing) == (0, False)


@pytest.mark.parametrize(
    ("data", "forged", "missing", "entries"),
    [
        (line("a", 0, START) + line("a", 1, END, key=b"other"), 1, False, 1),
        (line("a", 0, START) + line("c", 0, START), 1, False, 1),
        (line("a", 0, START) + b"\n", 1, False, 1),
        (line("a", 0, START) + b"garbage", 1, False, 1),
        (line("a", 0, START) + line("a", 0, START), 1, False, 1),
        (line("a", 0, START) + line("a", 1, END).replace(b"end", b"End"), 1, False, 1),
        (line("a", 0, START) + line("a", 2, END), 0, True, 2),
        (line("a", 1, END), 0, True, 1),
        (line("a", 0, '{"k": ', flag="+") + line("a", 2, '"end"}'), 0, True, 0),
        (b"", 0, False, None),
    ],
)
def test_what_is_not_as_it_was_sent_is_noticed(data: bytes, forged: int, missing: bool, entries: int | None) -> None:
    found = verified(data, KEYS)
    assert (found.forged, found.missing) == (forged, missing)
    assert [len(session) for session in found.sessions] == ([] if entries is None else [entries])


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.text(max_size=9)), max_size=5),
)
def test_no_bytes_break_the_reader(noise: bytes, lines: Any) -> None:
    signed = b"".join(line(a, n, json.dumps(text)) for a, n, text in lines)
    found = verified(signed + noise, KEYS)
    assert not any(found.sessions)
    read_probe(found, Path("/nonexistent"))


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, PROBE_FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_more_than_a_pipe_holds_arrives(tmp_path: Path) -> None:
    names = [f"tests/test_é.py::test_{'x' * 100}[{n}]" for n in range(5000)]
    with ReportChannel(tmp_path) as channel:
        session, key = (text.decode() for text in channel.new_session())
        recorder = loaded("understudy_report").Recorder(str(channel.path), session, bytes.fromhex(key))
        recorder.start("pytest")
        await asyncio.to_thread(recorder.line, k="collected", ids=names, odd=[None, True, False, 1, "\udcff"])
    found = channel.received()
    assert (found.forged, found.missing) == (0, False)
    assert found.sessions[0][1] == {"k": "collected", "ids": names, "odd": [None, True, False, 1, "\udcff"]}
    recorder.line(k="late")  # the check is over: it does not wait for a reader
    assert not channel.path.exists()


async def test_the_tests_of_a_run_are_counted_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant_runs, "PROGRESS_SECONDS", 0.0)
    names = [f"tests/test_{'x' * 100}.py::test[{n}]" for n in range(2000)]
    told: list[tuple[str, Count]] = []
    counts: list[tuple[int, int]] = []
    progress = mutant_runs.Progress(lambda *what: told.append(what), of="tests", run="without the result")

    def counted(done: int, total: int) -> None:
        counts.append((done, total))
        progress.judged(done, total)

    with ReportChannel(tmp_path, counted) as channel:
        session, key = (text.decode() for text in channel.new_session())
        recorder = loaded("understudy_report").Recorder(str(channel.path), session, bytes.fromhex(key))
        recorder.start("pytest")
        await asyncio.to_thread(recorder.line, k="collected", ids=names)
        for name in names:
            await asyncio.to_thread(recorder.outcome, name, "call", "passed")
    assert counts[-1] == (2000, 2000)
    assert {total for _, total in counts} == {2000}
    assert all(text.startswith(f"ran {count.done:,} of 2,000 tests (without the result)") for text, count in told)
    assert 10 <= len(told) <= 20


def test_what_is_counted_may_be_anything() -> None:
    counts: list[tuple[int, int]] = []
    counter = probe._Counter(lambda done, total: counts.append((done, total)))
    for data in (
        b"\n\n x\n",
        b'a b 0 . {"k": "collected", "ids": 3}\n',
        b'a b 1 . {"k":"test"\na b 2',
        b' . {"k":"test"}\n',
    ):
        counter.read(data)
    assert counts == [(1, 1), (2, 2)]


def waits_for_python(thread: Path) -> bool:
    """Return whether a thread waits for the interpreter, not for the kernel."""
    return (thread / "wchan").read_text().startswith("futex")


async def test_a_process_waits_while_many_others_ask(tmp_path: Path) -> None:
    report = loaded("understudy_report")
    path = str(tmp_path / "keys")
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen(0)
        waiting = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                other = opened.enter_context(socket.socket(socket.AF_UNIX))
                other.setblocking(False)
                other.connect(path)
                waiting += 1
        asking: queue.SimpleQueue[int] = queue.SimpleQueue()

        def ask() -> bytes:
            asking.put(threading.get_native_id())
            answer: bytes = report._ask(path)
            return answer

        answer = asyncio.create_task(asyncio.to_thread(ask))
        thread = Path(f"/proc/self/task/{await asyncio.to_thread(asking.get)}")
        while not answer.done() and (") S " not in (thread / "stat").read_text() or waits_for_python(thread)):
            await asyncio.sleep(0)
        assert not answer.done(), answer
        for _ in range(waiting + 1):
            connection = (await asyncio.to_thread(listener.accept))[0]
            connection.sendall(b"name key")
            connection.close()
        assert await answer == b"name key"


async def test_a_socket_that_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    channel = ReportChannel(tmp_path)
    channel.keys.touch()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="in use"):
        channel.__enter__()
    assert os.listdir("/proc/self/fd") == before


async def test_settings_that_were_taken_are_nowhere_in_the_process(tmp_path: Path) -> None:
    probe = write_probe(tmp_path)
    module = probe.names["understudy_report"]
    (tmp_path / "x.py").write_text(
        f"import os, {module} as report\n"
        f"assert {module!r} in open('/proc/self/environ').read()\n"
        "settings = report.take_settings()\n"
        "assert settings.recorder is not None and 'keys' not in settings.values\n"
        "report.hide(settings)\n"
        f"assert {module!r} not in open('/proc/self/environ').read() and {module!r} not in repr(dict(os.environ))\n"
        "assert os.environ['PYTHONPATH'] == '/elsewhere' and os.environ['PYTEST_ADDOPTS'] == '-q'\n"
        "assert os.environ['LAST'] == 'z' and 'LAST=z' in open('/proc/self/environ').read()\n"
    )
    with ReportChannel(tmp_path) as channel:
        settings = {"channel": str(channel.path), "keys": str(channel.keys), "folder": str(probe.folder)}
        environment = {
            module: json.dumps(settings | {"addopts": "-p x"}),
            "PYTHONPATH": f"{probe.folder}:/elsewhere",
            "PYTEST_ADDOPTS": "-q -p x",
            "LAST": "z",
        }
        argv = [shutil.which("python3") or "python3", str(tmp_path / "x.py")]
        done = await run(program(argv, tmp_path, environment), timeout_seconds=60, started=channel.answer)
    assert done.code == 0, done.stderr.decode()


def interpreters() -> list[str]:
    found = []
    for version in ("3.8", "3.9", "3.13"):
        for path in sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python")):
            found.append(str(path))
    return found


@pytest.mark.parametrize("python", interpreters(), ids=lambda path: Path(path).parts[-3])
async def test_other_interpreters_report_unittest(tmp_path: Path, python: str) -> None:
    (tmp_path / "test_x.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    with ReportChannel(reports) as channel:
        probe = write_probe(reports)
        environment: dict[str, str] = {}
        add_probe(environment, probe, channel, ProbeOptions(root=tmp_path))
        argv = [python, "-m", probe.unittest, "test_x.py"]
        done = await run(program(argv, tmp_path, environment), timeout_seconds=60, started=channel.answer)
    assert done.code == 0, done.stderr.decode()
    report = read_probe(channel.received(), reports)
    assert (report.started, report.ended, report.problems) == (1, 1, ())
    assert report.outcomes == {"test_x.T.test_it": "passed"}


SUBTESTS = """
import unittest

class T(unittest.TestCase):
    def test_passes(self):
        for number in range(50):
            with self.subTest(number=number):
                pass

    def test_fails(self):
        for number in range(50):
            with self.subTest(number=number):
                self.assertEqual(number, -1)
"""


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
async def test_subtests_are_reported_with_their_test(tmp_path: Path, runner: str) -> None:
    (tmp_path / "test_x.py").write_text(SUBTESTS)
    reports = tmp_path / "reports"
    reports.mkdir()
    with ReportChannel(reports) as channel:
        probe = write_probe(reports)
        environment = base_environment()
        add_probe(environment, probe, channel, ProbeOptions(root=tmp_path))
        argv = [sys.executable, "-m", probe.unittest if runner == "unittest" else "pytest", "test_x.py"]
        await run(program(argv, tmp_path, environment), timeout_seconds=60, started=channel.answer)
    received = channel.received()
    assert sorted(read_probe(received, reports).outcomes.values()) == ["failed", "passed"]
    # Of a test whose subtests failed, pytest may say that it passed itself.
    assert sum(entry["k"] == "test" for session in received.sessions for entry in session) <= 3


def test_names_differ_in_every_run(tmp_path: Path) -> None:
    one, two = (write_probe(tmp_path) for _ in range(2))
    assert not set(one.names.values()) & set(two.names.values())
    for file in os.listdir(one.folder):
        assert "understudy" not in file
