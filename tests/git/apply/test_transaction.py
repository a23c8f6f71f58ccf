"""An accept is all or nothing, whatever happens at whatever instant, and never over a save of the user's."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.git.apply import filesystem, rollback, transaction
from understudy.git.apply.transaction import FileTransaction, read_entry
from understudy.git.changes import Change, Entry
from understudy.git.merge import undo as undo_merge
from understudy.git.merge.undo import UndoRecord
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate
from understudy.model.errors import ErrorKind, UnderstudyError

BIG = b"".join(b"line %d\n" % number for number in range(3000))


def f(content: bytes) -> Entry:
    return Entry("100644", content)


def x(content: bytes) -> Entry:
    return Entry("100755", content)


BEFORE = {
    b"plain": f(b"1\n2\n"),
    b"big": f(BIG),
    b"run": f(b"#!/bin/sh\n"),
    b"d/e/deleted": f(b"gone soon\n"),
    b"link": Entry("120000", b"plain"),
    b"becomes-folder": f(b"a file\n"),
    b"becomes-file/x": f(b"x\n"),
    b"becomes-file/deep/y": f(b"y\n"),
    b"\xff\n odd": f(b"odd\n"),
    b"old-name": f(b"renamed\n"),
    b"untouched": f(b"stay\n"),
}
AFTER = {
    b"plain": f(b"1\nNEW\n2\n"),
    b"big": f(BIG.replace(b"line 7\n", b"LINE 7\n")),
    b"run": x(b"#!/bin/sh\n"),
    b"link": Entry("120000", b"big"),
    b"becomes-folder/in": f(b"inside\n"),
    b"becomes-file": f(b"no folder\n"),
    b"\xff\n odd": f(b"\0\1"),
    b"new-folder/new-name": f(b"renamed\n"),
    b"n/m/o": x(b"new\n"),
    b"untouched": f(b"stay\n"),
}


def lay(top: Path, files: dict[bytes, Entry]) -> None:
    shutil.rmtree(top, ignore_errors=True)
    for path, entry in files.items():
        full = top / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode == "120000":
            full.symlink_to(os.fsdecode(entry.content))
        else:
            full.write_bytes(entry.content)
            full.chmod(0o755 if entry.mode == "100755" else 0o644)


def seen(top: Path) -> dict[bytes, Entry]:
    """Everything below, temporary names included."""
    found = {}
    for folder, folders, names in os.walk(os.fsencode(top)):
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
            path = os.path.relpath(os.path.join(folder, name), os.fsencode(top))
            entry = read_entry(top, path)
            assert entry is not None
            found[path] = entry
    return found


def folders(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*") if path.is_dir() and not path.is_symlink()}


def changes(before=BEFORE, after=AFTER) -> list[Change]:
    return [
        Change(path, before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    lay(folder, BEFORE)
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def accept(top: Path, journal: Path, planned: list[Change]) -> None:
    with FileTransaction(top, journal) as exchange:
        exchange.apply(planned)
        exchange.commit()


def attempt(top: Path, journal: Path, *, commit: bool = False) -> None:
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
        if commit:
            exchange.commit()


def kind_of(action) -> ErrorKind | None:
    """Run it and return how it failed."""
    try:
        action()
    except UnderstudyError as error:
        return error.kind
    return None


@pytest.fixture(params=[False, True], ids=["one by one", "whole folders"])
def whole(request, monkeypatch) -> bool:
    """Whether new folders of any size are written whole and renamed; `start` passes it on to its process."""
    if request.param:
        monkeypatch.setattr(transaction, "MANY_FILES", 0)
    return request.param


@pytest.fixture(params=["exchange", "fallback"])
def way(whole, request, monkeypatch) -> str:
    if request.param == "fallback":

        def unsupported(*_):
            raise filesystem.UnsupportedError

        monkeypatch.setattr(filesystem, "_rename", unsupported)
    return request.param


def test_everything_is_new_after_a_commit(top, journal, way):
    (top / "plain").chmod(0o640)
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
        assert journal.exists()
        exchange.commit()
    assert seen(top) == AFTER
    assert folders(top) == {"becomes-folder", "new-folder", "n", "n/m"}
    assert (top / "plain").stat().st_mode & 0o777 == 0o640
    assert not journal.exists()
    assert rollback.recover(journal) == "nothing"


def test_everything_is_old_without_a_commit(top, journal, way):
    had = folders(top)
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
    assert seen(top) == BEFORE
    assert folders(top) == had
    assert not journal.exists()


STALE = [(b"plain", f(b"saved\n")), (b"big", f(b"")), (b"d/e/deleted", f(b"saved\n")), (b"n/m/o", f(b"in the way\n"))]


@pytest.mark.parametrize(("path", "entry"), STALE)
def test_what_was_saved_before_wins(top, journal, way, path, entry):
    full = top / os.fsdecode(path)
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(entry.content)
    with FileTransaction(top, journal) as exchange, pytest.raises(UnderstudyError) as caught:
        exchange.apply(changes())
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT
    assert seen(top) == BEFORE | {path: entry}


def test_a_large_new_folder_appears_with_all_its_files(top, journal, monkeypatch):
    monkeypatch.setattr(transaction, "MANY_FILES", 3)
    found = []

    def look(name: str) -> None:
        if name == "folder":
            found.append({each.name for each in top.glob("new/*")})
        elif not found:
            assert not (top / "new").exists()

    monkeypatch.setattr(transaction, "failpoint", look)
    wanted = [Change(b"new/%d" % number, None, f(b"new\n")) for number in range(3)]
    accept(top, journal, [*wanted, Change(b"new/deeper/still/x", None, x(b"run\n"))])
    assert found == [{"0", "1", "2", "deeper"}]
    assert not list(top.glob(".understudy*"))


def test_only_the_largest_new_folders_are_written_whole(top, journal, monkeypatch):
    monkeypatch.setattr(transaction, "MANY_FILES", 5)
    found = []

    def look(name: str) -> None:
        if name == "all staged":
            for each in top.rglob(".understudy-*"):
                found.append((str(each.parent.relative_to(top)), sum(one.is_file() for one in each.rglob("*"))))

    monkeypatch.setattr(transaction, "failpoint", look)
    sizes = {b"small": 2, b"large/deep": 4, b"medium": 3, b"d/limit": 5}
    paths = [b"%s/%d" % (folder, number) for folder, size in sizes.items() for number in range(size)]
    accept(top, journal, [Change(path, None, f(b"new\n")) for path in paths])
    # In each folder, at most five files wait under temporary names.
    assert sorted(found) == [(".", 0)] * 5 + [(".", 4)] + [("d", 0)] * 5
    assert set(seen(top)) == {*BEFORE, *paths}


@pytest.mark.parametrize("outcome", ["error", "kill", "commit"])
def test_what_others_write_in_a_temporary_folder_is_removed_with_it(top, journal, tmp_path, monkeypatch, outcome):
    monkeypatch.setattr(transaction, "MANY_FILES", 0)
    outside = tmp_path / "outside"
    lay(outside, {b"kept": f(b"kept\n")})
    had = folders(top)
    planned = changes()

    def litter(name: str) -> None:
        if name == "all staged":
            for temporary in top.rglob("*.folder"):
                (temporary / "__pycache__").mkdir()
                (temporary / "__pycache__" / "x.pyc").write_bytes(b"compiled")
                (temporary / "link").symlink_to(outside)
                (temporary / "m").mkdir(exist_ok=True)
                (temporary / "m" / "o.js").write_bytes(b"compiled")
            if outcome == "commit":  # takes the name, so that the files are moved one by one
                (top / "n").mkdir()
                (top / "new-folder").mkdir()
            elif outcome == "error":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    if outcome == "kill":
        assert end(start(top, journal, fault="all staged:1")) == -signal.SIGKILL
        litter("all staged")
        assert list(top.rglob("x.pyc"))
        assert rollback.recover(journal) == "before"
    else:
        if outcome == "commit":
            planned = [each for each in planned if not each.path.startswith(b"becomes-folder")]
        monkeypatch.setattr(transaction, "failpoint", litter)
        kind = kind_of(partial(accept, top, journal, planned))
        assert kind is (ErrorKind.PERMISSION_DENIED if outcome == "error" else None)
    assert not list(top.rglob("*.folder"))
    assert not list(top.rglob("x.pyc"))
    assert seen(outside) == {b"kept": f(b"kept\n")}
    if outcome != "commit":
        assert seen(top) == BEFORE
        assert folders(top) == had


def test_a_temporary_folder_that_cannot_be_emptied_ends_no_roll_back(top, journal, monkeypatch):
    monkeypatch.setattr(transaction, "MANY_FILES", 0)
    monkeypatch.setattr(filesystem, "REMOVED", 2)

    def litter(name: str) -> None:
        if name == "all staged":
            [temporary] = top.glob("*.folder")
            for number in range(9):
                (temporary / str(number)).write_bytes(b"compiled")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(transaction, "failpoint", litter)
    assert kind_of(partial(accept, top, journal, [Change(b"n/x", None, f(b"new\n"))])) is ErrorKind.PERMISSION_DENIED
    assert len(seen(top)) - len(BEFORE) == 9 - 3 * 2
    assert not journal.exists()


@pytest.mark.parametrize("point", ["journalled", "staging folder", "staged", "all staged"])
def test_a_new_folder_that_the_user_makes_meanwhile_is_kept(top, journal, way, whole, monkeypatch, *, point):
    if point == "staging folder" and not whole:
        point = "all staged"

    def make(name: str) -> None:
        if name == point:
            (top / "n" / "m").mkdir(parents=True, exist_ok=True)
            (top / "n" / "mine").write_bytes(b"mine\n")

    monkeypatch.setattr(transaction, "failpoint", make)
    accept(top, journal, changes())
    assert seen(top) == AFTER | {b"n/mine": f(b"mine\n")}
    assert folders(top) == {"becomes-folder", "new-folder", "n", "n/m"}


def test_what_is_saved_in_a_new_folder_survives_a_roll_back(top, journal, way):
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
        (top / "n" / "m" / "o").write_bytes(b"saved\n")
        (top / "n" / "mine").write_bytes(b"mine\n")
    assert seen(top) == BEFORE | {b"n/m/o": x(b"saved\n"), b"n/mine": f(b"mine\n")}


POINTS = ["staged", "exchanged", "replaced", "aside", "moved", "created", "emptied", "folder"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("path", [b"plain", b"d/e/deleted", b"untouched"])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_save_in_the_middle_wins(top, journal, whole, monkeypatch, *, point, path, atomic):
    saved = f(b"saved in the middle\n")
    done = []

    def save(name: str) -> None:
        if name == point and not done:
            done.append(name)
            target = top / os.fsdecode(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if atomic:
                (top / "save.tmp").write_bytes(saved.content)
                (top / "save.tmp").replace(target)
            else:
                target.write_bytes(saved.content)

    monkeypatch.setattr(transaction, "failpoint", save)
    kind = kind_of(partial(accept, top, journal, changes()))
    assert done
    assert kind in {None, ErrorKind.MERGE_CONFLICT}
    assert seen(top) == (BEFORE if kind else AFTER) | {path: saved}


def test_a_program_that_is_still_writing_the_file_is_not_cut_off(top, journal):
    with (top / "plain").open("r+b") as stream:
        with FileTransaction(top, journal) as exchange, pytest.raises(UnderstudyError) as caught:
            exchange.apply(changes())
        assert caught.value.kind is ErrorKind.MERGE_CONFLICT
        assert "open for writing" in caught.value.message
        stream.write(b"9")
    assert seen(top) == BEFORE | {b"plain": f(b"9\n2\n")}


@pytest.mark.parametrize("point", ["journalled", "staged", "aside", "replaced", "folder", "created"])
@pytest.mark.parametrize("folder", ["d", "n", "becomes-file"])
def test_a_link_planted_meanwhile_leads_nowhere(top, journal, whole, monkeypatch, tmp_path, *, point, folder):
    outside = tmp_path / "outside"
    lay(outside, {b"e/deleted": f(b"not yours\n"), b"x": f(b"not yours\n"), b"m/o": f(b"not yours\n")})
    victim = seen(outside)
    done = []

    def plant(name: str) -> None:
        if name == point and not done:
            done.append(name)
            if (top / folder).is_dir():
                (top / folder).rename(tmp_path / "moved away")
            elif (top / folder).exists():
                (top / folder).unlink()
            (top / folder).symlink_to(outside)

    monkeypatch.setattr(transaction, "failpoint", plant)
    kind = kind_of(partial(accept, top, journal, changes()))
    assert kind in {None, ErrorKind.PATH_ESCAPE, ErrorKind.MERGE_CONFLICT}
    assert seen(outside) == victim
    assert folders(outside) == {"e", "m"}


@pytest.mark.parametrize("replaced", [True, False])
def test_a_folder_that_is_moved_between_two_of_its_files_ends_it(top, journal, monkeypatch, tmp_path, *, replaced):
    done = []

    def move(name: str) -> None:
        if name == "created" and not done:
            done.append(name)
            (top / "d" / "e").rename(tmp_path / "moved away")
            if replaced:
                (top / "d" / "e").mkdir()

    monkeypatch.setattr(transaction, "failpoint", move)
    wanted = [Change(b"d/e/%d" % number, None, f(b"new\n")) for number in range(3)]
    assert kind_of(partial(accept, top, journal, wanted)) is not None
    assert done
    assert seen(top) == {path: entry for path, entry in BEFORE.items() if path != b"d/e/deleted"}
    assert seen(tmp_path / "moved away")[b"deleted"] == BEFORE[b"d/e/deleted"]


@pytest.mark.parametrize("path", [b".git/config", b"../x", b"/etc/x", b"a/.GIT/x", b"git~1/x", b"link/x", b""])
def test_names_that_lead_elsewhere_are_refused(top, journal, path):
    with FileTransaction(top, journal) as exchange, pytest.raises(UnderstudyError) as caught:
        exchange.apply([Change(b"plain", BEFORE[b"plain"], None), Change(path, None, f(b"x"))])
    assert caught.value.kind is ErrorKind.PATH_ESCAPE
    assert seen(top) == BEFORE
    assert not journal.exists()


def test_a_folder_with_other_files_is_not_replaced(top, journal):
    (top / "becomes-file" / "mine").write_bytes(b"untracked\n")
    with FileTransaction(top, journal) as exchange, pytest.raises(UnderstudyError) as caught:
        exchange.apply(changes())
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT
    assert seen(top) == BEFORE | {b"becomes-file/mine": f(b"untracked\n")}


def test_a_folder_that_cannot_be_written_leaves_all_as_it_was(top, journal):
    if os.geteuid() == 0:
        pytest.skip("permissions do not bind root")
    (top / "d" / "e").chmod(0o555)
    try:
        with FileTransaction(top, journal) as exchange, pytest.raises(UnderstudyError) as caught:
            exchange.apply(changes())
    finally:
        (top / "d" / "e").chmod(0o755)
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert seen(top) == BEFORE


def test_a_full_disk_is_named_where_it_is(top, tmp_path, monkeypatch):
    (tmp_path / "state").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with FileTransaction(top, tmp_path / "state" / "journal") as exchange, pytest.raises(UnderstudyError) as caught:
            exchange.apply(changes())
    assert caught.value.kind is ErrorKind.DISK_FULL
    assert f"under {tmp_path / 'state'} is full" in str(caught.value)
    assert seen(top) == BEFORE


@pytest.mark.parametrize(
    ("call", "code"),
    [
        *((call, errno.ENOSPC) for call in ("fsync", "open", "rename", "mkdir", "rmdir")),
        ("rename", errno.EIO),
        ("rename", errno.EROFS),
        *(
            pytest.param(call, code, marks=pytest.mark.heavy)
            for call in ("fsync", "open", "mkdir", "rmdir")
            for code in (errno.EIO, errno.EROFS)
        ),
    ],
)
def test_any_failing_call_changes_nothing(top, journal, whole, monkeypatch, *, call, code):
    """The n-th call of its kind fails, for each n until none does."""
    original = getattr(os, call)
    for number in range(1, 400):
        count = [0]

        def fail(*arguments, _count=count, _number=number, **keywords):
            _count[0] += 1
            if _count[0] == _number:
                raise OSError(code, os.strerror(code))
            return original(*arguments, **keywords)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            kind = kind_of(partial(attempt, top, journal))
        assert kind in {None, ErrorKind.DISK_FULL, ErrorKind.PERMISSION_DENIED}
        rollback.recover(journal)
        assert seen(top) == BEFORE
        if count[0] < number:
            return
    pytest.fail("more calls than expected")


def test_a_file_whose_folder_became_something_else_is_left_aside_and_named(top, journal, monkeypatch):
    lay(top, {b"t/mine": f(b"mine\n"), b"t/edited": f(b"1\n")})

    def take(name: str) -> None:
        if name == "emptied":
            (top / "t").write_bytes(b"theirs\n")

    monkeypatch.setattr(transaction, "failpoint", take)
    wanted = [
        Change(b"t/mine", f(b"mine\n"), None),
        Change(b"t/edited", f(b"1\n"), None),
        Change(b"t", None, f(b"new\n")),
    ]
    with pytest.raises(UnderstudyError) as caught:
        accept(top, journal, wanted)
    assert sorted(entry.content for entry in seen(top).values()) == [b"1\n", b"mine\n", b"theirs\n"]
    hint = caught.value.hint or ""
    kept = {entry.content: path.decode() for path, entry in seen(top).items()}
    for path, content in (("t/mine", b"mine\n"), ("t/edited", b"1\n")):
        assert f"{path} is kept as {kept[content]}." in hint


@pytest.mark.parametrize(("new", "old"), [("2", "1"), ("2", None), ("1", None), ("saved", None)])
def test_only_the_old_file_is_kept_where_its_folder_is_gone(tmp_path, new, old):
    before, after = (filesystem.signature(f(content)) for content in (b"1", b"2"))
    step = rollback.Step(b"t/edited", b"", b"x.new", b"x.old", before, after)
    for name, content in (("x.new", new), ("x.old", old)):
        if content is not None:
            (tmp_path / name).write_text(content)
    kept = rollback.put_back(tmp_path, {"made": [], "removed": []}, [step])
    expected = b"x.old" if old else b"x.new" if new != "2" else None
    assert kept == ({b"t/edited": expected} if expected else {})
    assert set(seen(tmp_path)) == set(kept.values())


def test_a_commit_that_fails_late_and_a_roll_back_that_dies_leave_all_before(top, journal, monkeypatch):
    """The word that makes it final is in the file, and the disk fails before it is flushed."""
    original, final = os.fsync, []

    def fail(descriptor):
        if not final and b"committed" in journal.read_bytes():
            final.append(True)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    def interrupt(name):
        if name == "put back":
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with monkeypatch.context() as patch:
        patch.setattr(rollback, "failpoint", interrupt)
        with pytest.raises(KeyboardInterrupt):
            attempt(top, journal, commit=True)
    assert final
    said = []
    assert rollback.recover(journal, lambda: said.append(True)) == "before"
    assert seen(top) == BEFORE
    assert not said


def test_a_second_change_waits_for_the_first(top, journal):
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
        with FileTransaction(top, journal) as other, pytest.raises(UnderstudyError) as caught:
            other.apply(changes())
        assert caught.value.kind is ErrorKind.CONFLICT
        exchange.commit()
    assert seen(top) == AFTER


# Kills

PROGRAM = """
import os, pickle, sys
sys.path.insert(0, {sidecar!r})
from pathlib import Path
from understudy.git.apply import transaction; from understudy.git.apply import filesystem
changes, top, journal, fallback, transaction.MANY_FILES = pickle.load(sys.stdin.buffer)
if fallback:
    def unsupported(*_):
        raise filesystem.UnsupportedError
    filesystem._rename = unsupported
print("go", flush=True)
with transaction.FileTransaction(Path(top), Path(journal)) as exchange:
    exchange.apply(changes)
    exchange.commit()
print("done", flush=True)
"""


def start(top: Path, journal: Path, *, fault: str | None = None, fallback: bool = False) -> subprocess.Popen[bytes]:
    import pickle

    import understudy

    sidecar = str(Path(understudy.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(sidecar=sidecar)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | ({FAILPOINT_VARIABLE: fault} if fault else {}),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps((changes(), str(top), str(journal), fallback, transaction.MANY_FILES)))
    process.stdin.close()
    assert process.stdout.readline() == b"go\n"
    return process


def end(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(30)
    assert process.stdout is not None
    process.stdout.close()
    return code


def check_whole(top: Path, journal: Path, before_folders: set[str]) -> str:
    outcome = rollback.recover(journal)
    found = seen(top)
    assert found in (BEFORE, AFTER)
    if outcome != "nothing":
        assert found == (BEFORE if outcome == "before" else AFTER)
    if found == BEFORE:
        assert folders(top) == before_folders
    assert rollback.recover(journal) == "nothing"
    assert seen(top) == found
    return "before" if found == BEFORE else "after"


ALL_POINTS = [
    "journalled", "staging folder", "open", "written", "staged", "moved", "aside", "emptied", "exchanged", "replaced", "folder", "created",
    "synced", "committed", "cleaning", "cleaned", "gap", "linked",
]  # fmt: skip


def killed_at(top: Path, journal: Path, fault: str, *, fallback: bool) -> bool:
    lay(top, BEFORE)
    had = folders(top)
    process = start(top, journal, fault=fault, fallback=fallback)
    code = end(process)
    check_whole(top, journal, had)
    return code == -signal.SIGKILL


@pytest.mark.parametrize("failpoint", ["written:1", "exchanged:1", "emptied:2", "created:1", "synced:1", "committed:1"])
def test_killed_at_a_failpoint_all_is_before_or_after(top, journal, whole, failpoint):
    assert killed_at(top, journal, failpoint, fallback=False)


@pytest.mark.parametrize("failpoint", ["linked:1", "linked:6", "linked:9", "gap:1"])
def test_killed_while_moving_without_the_help_of_the_system(top, journal, whole, failpoint):
    assert killed_at(top, journal, failpoint, fallback=True)


@pytest.mark.heavy
@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("name", ALL_POINTS)
def test_killed_at_every_instant_all_is_before_or_after(top, journal, whole, name, fallback):
    number = 0
    while killed_at(top, journal, f"{name}:{number + 1}", fallback=fallback):
        number += 1
    only = {"staging folder": whole, "gap": fallback, "linked": fallback, "exchanged": not fallback}
    assert number if only.get(name, True) else not number


@pytest.mark.parametrize(
    ("failpoint", "fallback"),
    [("created:1", False), ("folder:2", False), ("all staged:1", False), ("created:3", True)],
)
def test_killed_while_recovering_it_recovers(top, journal, whole, failpoint, fallback):
    had = folders(top)
    for number in range(1, 12, 3):
        lay(top, BEFORE)
        assert end(start(top, journal, fault=failpoint, fallback=fallback)) == -signal.SIGKILL
        script = f"import sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\nfrom understudy.git.apply import rollback\nrollback.recover(Path({str(journal)!r}))"
        sidecar = str(Path(rollback.__file__).parents[3])
        subprocess.run(
            [sys.executable, "-c", script, sidecar],
            env=os.environ | {FAILPOINT_VARIABLE: f"put back:{number}"},
            check=False,
        )
        assert check_whole(top, journal, had) == "before"


def random_kills(top: Path, journal: Path, count: int, seed: int) -> set[str]:
    chance = random.Random(seed)
    ends = set()
    longest = 0.05
    for number in range(count):
        lay(top, BEFORE)
        had = folders(top)
        process = start(top, journal, fallback=number % 4 == 3)
        began = time.monotonic()
        deadline = began + chance.random() * longest
        while time.monotonic() < deadline:
            pass
        process.kill()
        if end(process) == 0:
            longest = max(0.002, min(longest, (time.monotonic() - began) * 1.2))
        ends.add(check_whole(top, journal, had))
    return ends


def test_killed_at_random_all_is_before_or_after(top, journal, whole):
    random_kills(top, journal, 12, 1)


@pytest.mark.heavy
def test_killed_at_a_hundred_random_instants_all_is_before_or_after(top, journal, whole):
    assert random_kills(top, journal, 120, 2) == {"before", "after"}


@pytest.mark.heavy
def test_a_saver_that_never_rests_loses_nothing(top, journal):
    """Two editors, one that writes in place and one that replaces: at the end each last save is there."""
    stop = threading.Event()
    last = {}

    def save(path: str, atomic: bool) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            content = f"{path} {number}\n".encode()
            if atomic:
                (top / f"{path}.tmp").write_bytes(content)
                (top / f"{path}.tmp").replace(top / path)
            else:
                (top / path).write_bytes(content)
            last[path] = content
            time.sleep(random.random() / 500)

    savers = [threading.Thread(target=save, args=each) for each in (("plain", True), ("big", False))]
    for saver in savers:
        saver.start()
    applied = 0
    try:
        for _ in range(400):
            now = {path: read_entry(top, path) for path in (b"plain", b"big", b"untouched")}
            planned = [
                Change(path, entry, f(b"" if entry is None else entry.content + b"accepted\n"))
                for path, entry in now.items()
                if entry is not None
            ]
            kind = kind_of(partial(accept, top, journal, planned))
            assert kind in {None, ErrorKind.MERGE_CONFLICT}
            applied += kind is None
    finally:
        stop.set()
        for saver in savers:
            saver.join()
    for path, content in last.items():
        assert (top / path).read_bytes().startswith(content)
    # Each success appended to this file, nothing else did.
    assert (top / "untouched").read_bytes() == b"stay\n" + b"accepted\n" * applied
    assert not list(top.rglob(".understudy-*"))


def in_a_mount_of_its_own(script: str, place: Path, body: str, journal: Path) -> str:
    """Run Python where ``script`` has mounted what it likes; skipped where mounting is not allowed."""
    sidecar = str(Path(rollback.__file__).parents[3])
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", script, "-", str(place), sys.executable, body, str(journal), sidecar],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert not done.stderr, done.stderr
    return done.stdout.strip()


@pytest.mark.heavy
def test_a_full_disk_changes_nothing(tmp_path, journal):
    place = tmp_path / "small"
    place.mkdir()
    script = 'mount -t tmpfs -o size=256k,mode=777 none "$1" && exec "$2" -c "$3" "$1" "$4" "$5"'
    body = """
import os, sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from understudy.git.apply.transaction import FileTransaction
from understudy.git.merge.hunk_merge import Change, Entry
from understudy.model.errors import UnderstudyError
top = Path(sys.argv[1])
(top / "a").write_bytes(b"a")
f = lambda c: Entry("100644", c)
try:
    with FileTransaction(top, Path(sys.argv[2])) as exchange:
        exchange.apply([Change(b"a", f(b"a"), f(b"b")), Change(b"n/b", None, f(os.urandom(400000)))])
        exchange.commit()
except UnderstudyError as error:
    print(error.kind.value, sorted(os.listdir(top)), (top / "a").read_bytes())
"""
    assert in_a_mount_of_its_own(script, place, body, journal) == "disk_full ['a'] b'a'"


@pytest.mark.heavy
def test_a_disk_mounted_read_only_is_named_and_left_alone(tmp_path, journal):
    place = tmp_path / "small"
    place.mkdir()
    (place / "a").write_bytes(b"a")
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1" "$4" "$5"'
    body = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from understudy.git.apply.transaction import FileTransaction
from understudy.git.merge.hunk_merge import Change, Entry
from understudy.model.errors import UnderstudyError
try:
    with FileTransaction(Path(sys.argv[1]), Path(sys.argv[2])) as exchange:
        exchange.apply([Change(b"a", Entry("100644", b"a"), Entry("100644", b"b"))])
except UnderstudyError as error:
    print(error.kind.value, Path(sys.argv[2]).exists())
"""
    assert in_a_mount_of_its_own(script, place, body, journal) == "permission_denied False"


# Undo


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    return ObjectStore.create(tmp_path / "store", locate(tmp_path / "repo"))


def accepted(store: ObjectStore, top: Path, journal: Path) -> UndoRecord:
    record = undo_merge.record(store, changes())
    with FileTransaction(top, journal) as exchange:
        exchange.apply(changes())
        exchange.commit()
    return msgspec.json.decode(msgspec.json.encode(record), type=UndoRecord)


def undo(store: ObjectStore, top: Path, journal: Path, record: UndoRecord) -> None:
    planned = undo_merge.undo(store, record, partial(read_entry, top))
    with FileTransaction(top, journal) as exchange:
        exchange.apply(planned)
        exchange.commit()


def test_undo_restores_every_file(store, top, journal):
    had = folders(top)
    record = accepted(store, top, journal)
    undo(store, top, journal, record)
    assert seen(top) == BEFORE
    assert folders(top) == had
    undo(store, top, journal, record)  # a second time there is nothing left to do
    assert seen(top) == BEFORE


def test_blobs_of_the_result_are_not_written_again(store, tmp_path):
    content = b"from the result\n"
    result = undo_merge.record(store, [Change(b"a", None, Entry("100644", content))]).images[0].after
    objects = store.path / "objects"
    shutil.rmtree(objects / result[:2])
    again = [Change(b"b", None, Entry("100644", content)), Change(b"c", Entry("100644", content), None)]
    assert undo_merge.record(store, again[:1], verified={result}).images[0].after == result
    assert not (objects / result[:2]).exists()
    # What was in the user's file is nowhere else for sure.
    assert undo_merge.record(store, again, verified={result}).images[1].before == result
    assert (objects / result[:2] / result[2:]).exists()


def test_undo_keeps_later_edits(store, top, journal):
    record = accepted(store, top, journal)
    later = (top / "big").read_bytes().replace(b"line 2000\n", b"mine\n")
    (top / "big").write_bytes(later)
    (top / "untouched").write_bytes(b"mine\n")
    undo(store, top, journal, record)
    assert (top / "big").read_bytes() == later.replace(b"LINE 7\n", b"line 7\n")
    assert (top / "untouched").read_bytes() == b"mine\n"
    assert (top / "d/e/deleted").read_bytes() == b"gone soon\n"


@pytest.mark.parametrize("path", ["plain", "n/m/o", "becomes-file", "d/e/deleted"])
def test_undo_of_what_the_user_changed_again_changes_nothing(store, top, journal, path):
    record = accepted(store, top, journal)
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_bytes(b"1\nmine\n2\n")
    now = seen(top)
    with pytest.raises(UnderstudyError) as caught:
        undo(store, top, journal, record)
    assert caught.value.kind is ErrorKind.MERGE_CONFLICT
    assert caught.value.names == [path]
    assert seen(top) == now
