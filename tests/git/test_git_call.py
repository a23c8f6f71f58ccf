"""The one function that starts git: its bounds and its errors."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from understudy.git import call
from understudy.git.store import Store
from understudy.model.errors import ErrorKind, UnderstudyError


def fake(tmp_path: Path, monkeypatch, text: str) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\ncase "$*" in *--version*) echo git version ${FAKE:-2.45.0}; exit;; esac\n' + text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    call._checked_version.cache_clear()


def caught(act) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as info:
        act()
    return info.value


def test_git_missing_or_too_old(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"relative:{tmp_path}")
        assert caught(lambda: call.git("status", git_dir=tmp_path)).kind is ErrorKind.TOOL_MISSING
    fake(tmp_path, monkeypatch, "exit 0")
    program = tmp_path / "bin" / "git"
    program.write_text("#!/bin/sh\necho git version 2.30.2\n")
    error = caught(lambda: call.git("status", git_dir=tmp_path))
    assert error.kind is ErrorKind.TOOL_MISSING
    assert "2.30.2" in error.message
    assert "2.39" in (error.hint or "")


def test_a_hanging_git_ends_with_its_children(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, f"sleep 300 & echo $! > {tmp_path}/child; sleep 300")
    start = time.monotonic()
    error = caught(lambda: call.git("status", git_dir=tmp_path, timeout_seconds=0.5))
    assert error.kind is ErrorKind.TIMED_OUT
    assert time.monotonic() - start < 5
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
        except FileNotFoundError:
            break
    else:
        pytest.fail("the child lives")


def test_output_and_errors_are_bounded(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "yes 1234567 & yes 7654321 >&2")
    done = call.try_git("log", git_dir=tmp_path, output_limit=1 << 20)
    assert done.truncated
    assert len(done.stdout) == 1 << 20
    assert len(done.stderr) <= 65536
    assert caught(lambda: call.git("log", git_dir=tmp_path, output_limit=1000)).kind is ErrorKind.FILE_TOO_LARGE


def test_a_git_that_does_not_read_its_input_is_no_fault(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "exec <&-; echo done")
    assert call.git("x", git_dir=tmp_path, stdin=b"x" * 10_000_000) == b"done\n"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "echo 'error: unable to write file: No space left on device' >&2; exit 128")
    assert caught(lambda: call.git("add", git_dir=tmp_path)).kind is ErrorKind.STORE_FULL


def test_a_failure_carries_what_git_said(bench):
    bench.init()
    store = Store.create(bench.state / "s", bench.locate())
    error = caught(lambda: store.git("cat-file", "-t", "0" * 40))
    assert error.kind is ErrorKind.INTERNAL
    assert "cat-file" in error.message
