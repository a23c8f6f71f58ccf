"""A process is named by more than its number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from understudy.process import identity
from understudy.process.identity import Identity


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_it_travels_in_camel_case():
    wire = msgspec.json.encode(Identity(7, 8, "b"))
    assert wire == b'{"pid":7,"startTime":8,"bootId":"b"}'
    assert msgspec.json.decode(wire, type=Identity) == Identity(7, 8, "b")


def test_we_are_alive_and_the_same_every_time():
    own = identity.current()
    assert own == identity.of(os.getpid())
    assert own.pid == os.getpid()
    assert own.start_time > 0
    assert own.boot_id
    assert identity.alive(own)


def test_a_process_dies_by_its_identity(sleeper):
    one = identity.of(sleeper.pid)
    assert identity.alive(one)
    assert identity.end(one, signal.SIGTERM)
    assert sleeper.wait(60) == -signal.SIGTERM
    assert not identity.alive(one)
    assert not identity.end(one, signal.SIGTERM)


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "another boot"}])
@pytest.mark.parametrize("pidfds", [True, False])
def test_another_process_under_the_same_number_is_never_signalled(sleeper, change, pidfds, monkeypatch):
    if not pidfds:
        monkeypatch.delattr(os, "pidfd_open")
    stale = msgspec.structs.replace(identity.of(sleeper.pid), **change)
    assert not identity.alive(stale)
    assert not identity.end(stale, signal.SIGKILL)
    assert sleeper.poll() is None


def test_without_pidfds_the_right_process_still_ends(sleeper, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert identity.end(identity.of(sleeper.pid), signal.SIGTERM)
    assert sleeper.wait(60) == -signal.SIGTERM


def test_a_zombie_is_not_alive(sleeper, until):
    one = identity.of(sleeper.pid)
    sleeper.send_signal(signal.SIGKILL)
    until(lambda: not identity.alive(one))
    assert identity.of(sleeper.pid) is None
    assert os.path.exists(f"/proc/{sleeper.pid}"), "not collected yet"


def test_a_process_whose_first_thread_ended_is_alive(until):
    code = "import ctypes,threading,time; threading.Thread(target=time.sleep, args=(600,)).start(); ctypes.CDLL(None).pthread_exit(None)"
    process = subprocess.Popen([sys.executable, "-I", "-c", code])
    try:
        until(lambda: " Z " in Path(f"/proc/{process.pid}/stat").read_text())
        assert identity.of(process.pid) is not None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_groups_and_init_are_never_signalled(pid):
    start_time = getattr(identity.of(pid), "start_time", 0)
    assert not identity.end(Identity(pid, start_time, identity.boot_id()), signal.SIGCONT)


def test_a_name_may_look_like_the_end_of_the_name(tmp_path):
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "600"])
    try:
        assert identity.alive(identity.of(process.pid))
    finally:
        process.kill()
        process.wait()
