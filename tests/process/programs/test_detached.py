"""A detached program outlives its parent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time

import pytest
from programs import program

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.environment import base_environment
from understudy.process.programs import detached
from understudy.process.programs.detached import start_detached

ABOUT = """
import json, os, sys
print(json.dumps({
    'parent': os.getppid(), 'session': os.getsid(0), 'pid': os.getpid(), 'argv': sys.argv[1:], 'cwd': os.getcwd(),
    'fds': {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')},
    'names': sorted(os.environ),
}), flush=True)
"""


@pytest.fixture(params=["setsid", "python"])
def way(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(detached, "_SETSID", ())
    return request.param


def test_it_has_another_parent_its_own_session_and_only_the_named_descriptors(tmp_path, until, way):
    log, lock = tmp_path / "log", tmp_path / "lock"
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(other, True)
    kept = os.open(lock, os.O_CREAT | os.O_RDWR)
    fcntl.flock(kept, fcntl.LOCK_EX)
    argv = [sys.executable, "-I", "-c", ABOUT, "--", "-x", "a b"]
    start_detached(program(argv, tmp_path, base_environment({"A": "b"}), stdout_log=log), pass_fds=(kept,))
    until(lambda: log.exists() and log.read_text().endswith("\n"))
    about = json.loads(log.read_text())
    os.close(other)
    os.close(kept)
    assert about["parent"] != os.getpid()
    assert about["session"] != os.getsid(0)
    assert about["argv"] == ["--", "-x", "a b"]
    assert about["cwd"] == str(tmp_path)
    assert about["fds"].pop(str(kept)) == str(lock)
    assert about["fds"] == {"0": "/dev/null", "1": str(log), "2": str(log)}
    assert "A" in about["names"]
    assert "PYTEST_CURRENT_TEST" not in about["names"]
    assert log.stat().st_mode & 0o777 == 0o600


def test_the_lock_it_was_handed_is_held_until_it_ends(tmp_path, until, way, tagged):
    lock = tmp_path / "lock"
    kept = os.open(lock, os.O_CREAT | os.O_RDWR)
    fcntl.flock(kept, fcntl.LOCK_EX)
    (tmp_path / tagged.tag).symlink_to("/bin/sleep")
    start_detached(program([f"./{tagged.tag}", "600"], tmp_path), pass_fds=(kept,))
    os.close(kept)
    until(tagged.pids)
    again = os.open(lock, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def free():
        # While it becomes another program, a process shows no arguments, and is not found.
        for pid in tagged.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        try:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    until(free)
    os.close(again)


def test_what_can_be_known_before_is_raised(tmp_path, way):
    with pytest.raises(UnderstudyError) as caught:
        start_detached(program(["no-such-program"], tmp_path))
    assert caught.value.kind is ErrorKind.TOOL_MISSING
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnderstudyError) as caught:
        start_detached(program(["true"], tmp_path, stdout_log=tmp_path / "link"))
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE


def test_later_errors_are_in_the_log(tmp_path, until, way):
    (tmp_path / "bad").write_text("#!/no/such/interpreter\n")
    (tmp_path / "bad").chmod(0o700)
    start_detached(program(["./bad"], tmp_path, stdout_log=tmp_path / "log"))
    until(lambda: "bad" in (tmp_path / "log").read_text())


def test_it_is_quick(tmp_path):
    """Compare it with a bare start beside it: how long either takes depends on what else the machine does."""
    times: list[float] = []
    bare: list[float] = []
    for _ in range(30):
        began = time.perf_counter()
        start_detached(program(["true"], tmp_path))
        between = time.perf_counter()
        subprocess.run(["true"], check=True)
        times.append(between - began)
        bare.append(time.perf_counter() - between)
    print(f"{sum(times):.3f} s, bare {sum(bare):.3f} s")
    assert sum(times) < 20 * sum(bare)


def test_a_chosen_first_argument_is_kept(tmp_path, until):
    (tmp_path / "program").symlink_to(sys.executable)
    log = tmp_path / "log"
    argv = [str(tmp_path / "program"), "-I", "-c", "import sys; print(sys.orig_argv[0], flush=True)"]
    start_detached(program(argv, tmp_path, stdout_log=log))
    until(lambda: log.read_text().endswith("\n"))
    assert log.read_text().strip() == str(tmp_path / "program")
