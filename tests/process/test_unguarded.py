"""Small programs, run to their end without a guardian."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import subprocess
import sys
import time

import pytest
from programs import program
from wait_until import LIMITS

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import unguarded
from understudy.process.call_checks import base_environment
from understudy.process.unguarded import run_unguarded, start_detached

ABOUT = """
import json, os, sys
print(json.dumps({
    'parent': os.getppid(), 'session': os.getsid(0), 'pid': os.getpid(), 'argv': sys.argv[1:], 'cwd': os.getcwd(),
    'fds': {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')},
    'names': sorted(os.environ),
}), flush=True)
"""


def go(argv, tmp_path, **options):
    return run_unguarded(program(argv, tmp_path), **{"timeout_seconds": 20, **options})


def test_code_and_both_streams_come_back(tmp_path):
    done = go(["sh", "-c", "pwd; cat; echo no >&2; exit 4"], tmp_path)
    assert (done.code, done.signal, done.stdout.decode(), done.stderr) == (4, None, f"{tmp_path}\n", b"no\n")
    assert not done.timed_out


def test_a_signal_is_reported(tmp_path):
    assert go(["sh", "-c", "kill -9 $$"], tmp_path).signal == 9


def test_the_limit_kills_the_whole_group_and_keeps_the_output(tmp_path, tagged):
    (tmp_path / tagged.tag).symlink_to("/bin/sleep")
    code = f"trap '' TERM; ./{tagged.tag} 600 & echo said; ./{tagged.tag} 600"
    for seconds in LIMITS:
        done = go(["sh", "-c", code], tmp_path, timeout_seconds=seconds)
        assert done.seconds < 60
        assert (done.timed_out, done.signal) == (True, 9)
        assert tagged.gone() == []
        if done.stdout:
            break
    assert done.stdout == b"said\n"


def test_a_child_that_keeps_the_pipe_open_does_not_block(tmp_path, tagged):
    (tmp_path / tagged.tag).symlink_to("/bin/sleep")
    done = go(["sh", "-c", f"./{tagged.tag} 600 & echo said"], tmp_path)
    assert (done.code, done.stdout, done.timed_out) == (0, b"said\n", False)
    assert done.seconds < 60
    assert tagged.gone() == []


def test_a_program_that_closes_its_streams_is_still_limited(tmp_path):
    done = go(["sh", "-c", "exec sleep 600 >&- 2>&-"], tmp_path, timeout_seconds=0.3)
    assert done.timed_out


def test_output_that_comes_with_the_end_while_nobody_looks_is_kept(tmp_path, monkeypatch):
    class Late(selectors.DefaultSelector):
        """Waits in vain once, and has the processor again only after the program has ended."""

        late = False

        def select(self, timeout=None):
            if timeout and not Late.late:
                Late.late = True
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                return []
            return super().select(timeout)

    monkeypatch.setattr(selectors, "DefaultSelector", Late)
    done = go(["sh", "-c", "echo said; echo no >&2"], tmp_path)
    assert (done.code, done.stdout, done.stderr) == (0, b"said\n", b"no\n")


def test_the_end_of_long_output_is_kept(tmp_path):
    code = "import os\nfor _ in range(200): os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)\nos.write(1, b'END')"
    done = go([sys.executable, "-c", code], tmp_path, output_limit=100)
    assert (done.stdout, len(done.stderr), done.stdout_bytes) == (b"o" * 97 + b"END", 100, 200 * 65536 + 3)


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(UnderstudyError) as caught:
        go(["no-such-program"], tmp_path)
    assert caught.value.kind is ErrorKind.TOOL_MISSING
    assert caught.value.names == ["no-such-program"]


@pytest.fixture(params=["setsid", "python"])
def way(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(unguarded, "SETSID", ())
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
