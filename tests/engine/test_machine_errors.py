"""What a machine refuses has a kind and a sentence, and results can be read on a read-only disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.api.error_answers import internal_error
from understudy.engine.running.lifecycle.delegation_run import fault
from understudy.git import command, object_store
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind

KINDS = [
    (errno.ENOSPC, ErrorKind.DISK_FULL, "Free some space"),
    (errno.EROFS, ErrorKind.STATE_UNAVAILABLE, "Mount its file system writable"),
    (errno.EIO, ErrorKind.STATE_UNAVAILABLE, "reports errors"),
    (errno.EPERM, ErrorKind.PERMISSION_DENIED, "lsattr"),
    (errno.EMFILE, ErrorKind.OVERLOADED, "ulimit -a"),
    (errno.ENOMEM, ErrorKind.OVERLOADED, "ulimit -a"),
]

CALLS = """
import json, resource, sys
from pathlib import Path
from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.model.errors import UnderstudyError
if sys.argv[3]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]),) * 2)
for method, params in json.loads(sys.argv[2]):
    try:
        method_table.call(method, params, TerminalCaller(Path(sys.argv[1])))
        print("answered")
    except UnderstudyError as error:
        print(error.kind, error.message)
"""


@pytest.mark.parametrize(("code", "kind", "hint"), KINDS)
def test_what_the_machine_refuses_is_not_called_a_bug(code: int, kind: ErrorKind, hint: str, tmp_path: Path) -> None:
    refused = OSError(code, os.strerror(code), "/some/file")
    for error in (
        internal_error("delegations/diff", refused),
        fault(delegation_folder.Folder("20261127-101500-abcde", tmp_path), refused),
    ):
        assert (error.kind, error.message) == (kind, f"Cannot use /some/file: {os.strerror(code)}.")
        assert hint in (error.hint or "")
    failed = command.Completed(128, b"", b"fatal: cannot create /x: " + os.strerror(code).encode())
    if code != errno.ENOSPC:  # which looks at the places that git writes to
        assert command.failure(["gc"], failed, tmp_path).kind is kind


def test_no_memory_is_not_called_a_bug_and_a_bug_is() -> None:
    assert internal_error("status", MemoryError()).kind is ErrorKind.OVERLOADED
    for bug in (ValueError("x"), FileNotFoundError(errno.ENOENT, "", "/x")):
        assert internal_error("status", bug).kind is ErrorKind.INTERNAL


def test_a_log_that_cannot_be_written_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "internal-errors.log").mkdir()
    monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path))
    assert internal_error("status", ValueError("x")).log_paths is None


def test_the_copy_of_an_index_needs_no_change_of_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    (tmp_path / "index").write_bytes(b"DIRC")
    os.utime(tmp_path / "index", ns=(1, 2_000_000_001))
    monkeypatch.setattr(os, "chmod", refuse)  # as a network drive (CIFS) does
    object_store.copy_index(tmp_path / "index", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mtime_ns == 2_000_000_001


@pytest.fixture
def result(project: Any) -> str:
    """A result that waits for a decision."""
    project.program("worker", "pathlib.Path('calc.py').write_text('x = 1\\n'); say(type='result', ok=True, summary='')")
    return str(project.run("implement", "calc.py", task="x", delegator="worker").id)


def calls(project: Any, around: list[str], *methods: tuple[str, dict[str, Any]], files: str = "") -> list[str]:
    argv = [*around, sys.executable, "-c", CALLS, str(project.top), json.dumps(methods), files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=project.top)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_read_only_state_shows_results_and_changes_nothing(project: Any, result: str) -> None:
    state = delegation_folder.state_root()
    script = f'mount --bind "{state}" "{state}" && mount -o remount,bind,ro "{state}" && exec "$@"'
    around = ["unshare", "-rm", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*around, "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    found = calls(
        project,
        around,
        *((name, {}) for name in ("delegations/list", "status", "queue/get", "worktrees/list", "ledger/read")),
        *((f"delegations/{name}", {"id": result}) for name in ("get", "diff", "evidence", "logs")),
        ("delegations/export", {"id": result, "to": "patch"}),
        ("delegations/decide", {"id": result, "decisions": [{"decision": "accept"}]}),
        ("delegations/discard", {"id": result}),
        ("queue/pause", {"paused": True}),
    )
    assert found[:10] == ["answered"] * 10
    assert len(found) == 13
    for line in found[10:]:
        assert line.startswith(f"{ErrorKind.STATE_UNAVAILABLE} Cannot use {state}"), found
        assert line.endswith("Read-only file system."), found


def test_too_many_open_files_are_not_called_a_bug(project: Any, result: str) -> None:
    (found,) = calls(
        project, [], ("delegations/decide", {"id": result, "decisions": [{"decision": "accept"}]}), files="6"
    )
    assert found.startswith(str(ErrorKind.OVERLOADED)), found
    assert "Too many open files" in found
    assert (project.top / "calc.py").read_text() != "x = 1\n"
