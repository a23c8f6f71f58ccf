"""Test how git is called: bounds, errors and aborting."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from wait_until import LIMITS, until

from understudy.git import command
from understudy.git.base.capture import write_base
from understudy.git.merge import export
from understudy.git.object_store import ObjectStore
from understudy.git.worktree.worktree import create_worktree
from understudy.model.errors import ErrorKind, UnderstudyError


def fake(tmp_path: Path, monkeypatch, text: str) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\ncase "$*" in *--version*) echo git version ${FAKE:-2.45.0}; exit;; esac\n' + text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    command._checked_version.cache_clear()


def caught(act) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as info:
        act()
    return info.value


def test_git_missing_or_too_old(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"relative:{tmp_path}")
        assert caught(lambda: command.git_output("status", git_dir=tmp_path)).kind is ErrorKind.TOOL_MISSING
    fake(tmp_path, monkeypatch, "exit 0")
    program = tmp_path / "bin" / "git"
    program.write_text("#!/bin/sh\necho git version 2.30.2\n")
    error = caught(lambda: command.git_output("status", git_dir=tmp_path))
    assert error.kind is ErrorKind.TOOL_MISSING
    assert "2.30.2" in error.message
    assert "2.39" in (error.hint or "")


def test_a_hanging_git_ends_with_its_children(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, f"sleep 300 & echo $! > {tmp_path}/child; sleep 300")
    for seconds in LIMITS:
        error = caught(lambda limit=seconds: command.git_output("status", git_dir=tmp_path, timeout_seconds=limit))
        assert error.kind is ErrorKind.TIMED_OUT
        if (tmp_path / "child").exists() and (said := (tmp_path / "child").read_text()):
            break
    until(lambda: not lives(int(said)), "the child has ended")


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_output_and_errors_are_bounded(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "yes 1234567 & yes 7654321 >&2")
    done = command.run_git("log", git_dir=tmp_path, output_limit=1 << 20)
    assert done.truncated
    assert len(done.stdout) == 1 << 20
    assert len(done.stderr) <= 65536
    assert (
        caught(lambda: command.git_output("log", git_dir=tmp_path, output_limit=1000)).kind is ErrorKind.FILE_TOO_LARGE
    )


def test_a_git_that_does_not_read_its_input_is_not_an_error(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "exec <&-; echo done")
    assert command.git_output("x", git_dir=tmp_path, stdin=b"x" * 10_000_000) == b"done\n"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "echo 'error: unable to write file: No space left on device' >&2; exit 128")
    assert caught(lambda: command.git_output("add", git_dir=tmp_path)).kind is ErrorKind.DISK_FULL


def test_a_failure_contains_the_output_of_git(bench):
    bench.init()
    store = ObjectStore.create(bench.state / "s", bench.locate())
    error = caught(lambda: store.git_output("cat-file", "-t", "0" * 40))
    assert error.kind is ErrorKind.INTERNAL
    assert "cat-file" in error.message


@pytest.fixture
def small_disk(tmp_path):
    """A file system of three MiB."""
    place = tmp_path / "small"
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "none", str(place)]
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_reported_wherever_it_happens(small_disk, bench):
    bench.init()
    for number in range(40):
        chance = random.Random(number)
        (bench.repo / f"f{number}").write_bytes(chance.randbytes(40_000) if number % 2 else b"text\n" * 4000)
    for arguments in (["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run(["git", *arguments], cwd=bench.repo, check=True)
    (bench.repo / "new").write_bytes(random.Random(99).randbytes(40_000))
    found = bench.locate()
    ends = set()
    for kilobytes in [*range(0, 3000, 200), 2990, 3000, 3040, 3060]:
        for entry in list(small_disk.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        (small_disk / "ballast").write_bytes(b"x" * (kilobytes * 1024))
        try:
            store = ObjectStore.create(small_disk / "store", found)
            create_worktree(store, write_base(store, found), small_disk / "tree")
            ends.add("done")
        except UnderstudyError as error:
            ends.add(error.kind)
    assert ends == {"done", ErrorKind.DISK_FULL}


def test_a_full_disk_of_the_users_repository_is_named_by_an_export(small_disk, bench):
    bench.repo = small_disk / "repo"
    bench.repo.mkdir()
    bench.init()
    store, base, tree = bench.tree()
    bench.sh("seq 2000 > new; echo 2 >> f1", tree.path)
    head = tree.snapshot("work", base.commit).commit
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    named, ends = set(), set()
    for left in range(0, 40_960, 4096):  # pages
        (small_disk / "ballast").write_bytes(b"x" * (free - left))
        found = bench.locate()
        try:
            export.export(store, found, base.commit, head, parent=found.head_commit, message="x", branch=f"b{left}")
            ends.add("done")
        except UnderstudyError as error:
            ends.add(error.kind)
            named.add(str(bench.repo) in error.message)
        (small_disk / "ballast").unlink()
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    bench.sh("git fsck --strict --no-dangling")
    assert ends == {"done", ErrorKind.DISK_FULL}
    assert named == {True}


@pytest.mark.parametrize("words", ["fatal: sha1 file 'x' write error. Out of diskspace", "No space left on device"])
def test_a_full_disk_is_recognised_in_the_output_of_git(tmp_path, monkeypatch, words):
    fake(tmp_path, monkeypatch, f'echo "{words}" >&2; exit 128')
    assert caught(lambda: command.git_output("add", git_dir=tmp_path)).kind is ErrorKind.DISK_FULL


def test_another_write_error_is_not_a_full_disk(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, 'echo "error: unable to write file x" >&2; exit 128')
    assert caught(lambda: command.git_output("add", git_dir=tmp_path)).kind is ErrorKind.INTERNAL
