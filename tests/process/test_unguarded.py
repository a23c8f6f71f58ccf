"""Small programs, run to their end without a guardian."""

from __future__ import annotations

import os
import selectors
import sys

import pytest
from programs import program
from wait_until import LIMITS

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.unguarded import run_unguarded


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
