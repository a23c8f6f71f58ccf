"""An accept keeps what belongs to a file besides its content: permissions, extended attributes, hard links."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from understudy.files import durable
from understudy.git.apply import attributes, filesystem, rollback
from understudy.git.apply.transaction import FileTransaction
from understudy.git.changes import Change, Entry
from understudy.model.errors import ErrorKind, UnderstudyError

MODES = st.sampled_from([0o644, 0o444, 0o400, 0o600, 0o755, 0o2755, 0o4711, 0o777, 0o664])
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda piece, count: piece * count, st.sampled_from([b"line\n", b"\0", b"ab"]), st.integers(0, 3000)),
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["user.a", "user.b"]), st.binary(max_size=5), max_size=2)


def entry(mode: int, content: bytes) -> Entry:
    return Entry("100755" if mode & 0o100 else "100644", content)


@contextlib.contextmanager
def checkout(content: bytes, mode: int, links: int, attributes: dict[str, bytes]) -> Iterator[Path]:
    """Yield a folder with ``checkout/file`` and its other names."""
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / "checkout" / "file"
        file.parent.mkdir()
        file.write_bytes(content)
        for name, value in attributes.items():
            os.setxattr(file, name, value)
        file.chmod(mode)
        for number in range(1, links):
            (folder / f"link{number}").hardlink_to(file)
        yield folder
    finally:
        shutil.rmtree(folder)


def kept(file: Path) -> dict[str, object]:
    found = file.stat()
    extended = {name: os.getxattr(file, name) for name in os.listxattr(file)}
    return {"mode": stat.S_IMODE(found.st_mode), "owner": (found.st_uid, found.st_gid), "extended": extended}


def names_left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.startswith("link"))


@given(CONTENTS, CONTENTS, MODES, st.integers(1, 3), ATTRIBUTES, st.booleans(), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_attributes_and_links_are_kept(  # noqa: PLR0917 - hypothesis passes them by position
    before, after, mode, links, attributes, committed, executable
):
    now = entry(mode, before)
    then = Entry("100755" if executable else "100644", after)
    assume(now != then)
    with checkout(before, mode, links, attributes) as folder:
        file = folder / "checkout" / "file"
        had, inode = kept(file), file.stat().st_ino
        with FileTransaction(file.parent, folder / "journal") as exchange:
            exchange.apply([Change(b"file", now, then)])
            if committed:
                exchange.commit()
        assert file.read_bytes() == (after if committed else before)
        assert file.stat().st_nlink == links
        if links > 1:
            assert file.stat().st_ino == inode
            assert (folder / "link1").read_bytes() == file.read_bytes()
        found = kept(file)
        if not committed or now.mode == then.mode:
            assert found == had
        else:
            assert found | {"mode": had["mode"]} == had
            assert bool(found["mode"] & 0o100) == executable
            assert found["mode"] & ~0o111 == had["mode"] & ~0o111
        assert names_left(folder) == ["file"]


def test_an_attribute_that_only_the_system_may_set_does_not_stop_an_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    original = os.setxattr

    def refuse(file: int, name: bytes, value: bytes) -> None:
        if not name.startswith(b"user."):
            raise PermissionError(errno.EPERM, "not permitted")
        original(file, name, value)

    monkeypatch.setattr(os, "setxattr", refuse)
    with (tmp_path / "file").open("rb+") as file:
        attributes.restore(file.fileno(), {b"security.ima": b"1", b"user.label": b"mine"}, 0o640)
        assert os.getxattr(file.fileno(), "user.label") == b"mine"
        monkeypatch.setattr(os, "setxattr", lambda *_: refuse(*_[:1], b"trusted.x", b""))
        with pytest.raises(attributes.LostError):
            attributes.restore(file.fileno(), {b"user.other": b"1"}, 0o640)


def run_killed(point: str, folder: Path, *changes: Change) -> bool:
    """Apply changes in a child process that dies at a failpoint; return whether it died there."""
    child = os.fork()
    if child == 0:
        durable._passed.clear()
        durable._armed = point
        code = 1
        with contextlib.suppress(BaseException):
            with FileTransaction(folder / "checkout", folder / "journal") as exchange:
                exchange.apply(changes)
                exchange.commit()
            code = 0
        os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in {0, -signal.SIGKILL}
    return ended != 0


@given(CONTENTS, CONTENTS, MODES, st.integers(1, 30))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_kill_while_a_linked_file_is_written_loses_nothing(before, after, mode, number):
    assume(before != after)
    with checkout(before, mode, 2, {}) as folder:
        file = folder / "checkout" / "file"
        had, inode = kept(file), file.stat().st_ino
        change = Change(b"file", entry(mode, before), entry(mode, after))
        killed = run_killed(f"*:{number}", folder, change)
        outcome = rollback.recover(folder / "journal")
        complete = outcome == "after" or not killed
        assert file.read_bytes() == (after if complete else before)
        assert kept(file) == had
        assert file.stat().st_ino == inode
        assert names_left(folder) == ["file"]


@pytest.mark.parametrize("point", ["half written:1", "not cut yet:1"])
@pytest.mark.parametrize("after", [b"a longer text\n" * 400, b"short\n"])
def test_a_half_written_file_is_undone(point, after):
    before = b"one line\n" * 300
    with checkout(before, 0o444, 2, {}) as folder:
        assert run_killed(point, folder, Change(b"file", entry(0o444, before), entry(0o444, after)))
        file = folder / "checkout" / "file"
        assert file.read_bytes() != before
        assert rollback.recover(folder / "journal") == "before"
        assert file.read_bytes() == (folder / "link1").read_bytes() == before


def test_a_save_after_the_kill_is_kept():
    with checkout(b"old\n" * 500, 0o644, 2, {}) as folder:
        change = Change(b"file", entry(0o644, b"old\n" * 500), entry(0o644, b"new\n" * 400))
        assert run_killed("half written:1", folder, change)
        (folder / "checkout" / "file").write_bytes(b"saved by the user\n" * 100)
        assert rollback.recover(folder / "journal") == "before"
        assert (folder / "checkout" / "file").read_bytes() == b"saved by the user\n" * 100


@given(st.binary(max_size=2000), st.binary(max_size=2000), st.integers(0, 2000))
def test_every_interrupted_write_is_recognised(before, after, written):
    done = after[:written]
    assert filesystem.is_torn(done + before[len(done) :], before, after)


def renamed(before: bytes, after: bytes, mode: int) -> list[Change]:
    return [
        Change(b"file", entry(mode, before), None),
        Change(b"d/new", None, entry(mode, after), source=b"file"),
    ]


@given(CONTENTS, CONTENTS, MODES, st.integers(1, 2), ATTRIBUTES, st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_a_renamed_file_keeps_what_belongs_to_it_or_says_that_it_cannot(  # noqa: PLR0917 - hypothesis passes them
    before, after, mode, links, attributes, committed
):
    with checkout(before, mode, links, attributes) as folder:
        file, new = folder / "checkout" / "file", folder / "checkout" / "d" / "new"
        had, inode = kept(file), file.stat().st_ino
        lost = links > 1 and before != after
        refusal = pytest.raises(
            UnderstudyError, match=r"^file would lose its other names \(hard links\), so nothing was"
        )
        with (
            refusal if lost else contextlib.nullcontext(),
            FileTransaction(file.parent, folder / "journal") as exchange,
        ):
            exchange.apply(renamed(before, after, mode))
            if committed:
                exchange.commit()
        committed = committed and not lost
        found = new if committed else file
        assert found.read_bytes() == (after if committed else before)
        assert kept(found) == had
        assert found.stat().st_nlink == links
        assert links == 1 or found.stat().st_ino == inode
        assert names_left(folder) == [found.name]


@given(st.integers(1, 40), st.integers(1, 2))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_kill_during_a_rename_leaves_one_of_the_two_names(number, links):
    body = b"one line\n" * 50
    after = body if links > 1 else body + b"more\n"
    with checkout(body, 0o640, links, {"user.a": b"1"}) as folder:
        file, new = folder / "checkout" / "file", folder / "checkout" / "d" / "new"
        had = kept(file)
        killed = run_killed(f"*:{number}", folder, *renamed(body, after, 0o640))
        complete = rollback.recover(folder / "journal") == "after" or not killed
        found = new if complete else file
        assert names_left(folder) == [found.name]
        assert found.read_bytes() == (after if complete else body)
        assert kept(found) == had
        assert found.stat().st_nlink == links


NOBODY, GROUP = 65534, 4242


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of other users and groups")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "lost"),
    [
        (0, 0, 0o644, "owner"),
        (NOBODY, 0, 0o2755, "setgid bit"),
        (NOBODY, 0, 0o2644, "setgid bit"),
        (NOBODY, 0, 0o755, None),
        (NOBODY, 0, 0o4755, None),
        (NOBODY, GROUP, 0o2755, None),
        (NOBODY, GROUP, 0o6750, None),
    ],
)
def test_what_would_be_lost_is_said_before_anything_changes(owner, group, mode, lost):
    """By an ordinary user who is in one group besides the own one."""
    with checkout(b"old\n", 0o644, 1, {}) as folder:
        file = folder / "checkout" / "file"
        for path in (folder, folder / "checkout"):
            path.chmod(0o777)
        os.chown(file, owner, group)
        file.chmod(mode)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.setgroups([GROUP])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                change = Change(b"file", entry(mode, b"old\n"), entry(mode, b"new\n"))
                try:
                    with FileTransaction(folder / "checkout", folder / "journal") as exchange:
                        exchange.apply([change])
                        exchange.commit()
                except UnderstudyError as error:
                    os.write(writing, f"{error.kind}: {error.message}".encode())
                except BaseException as error:
                    os.write(writing, repr(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            said = stream.read()
        refusal = f"{ErrorKind.PERMISSION_DENIED}: file would lose its {lost}, so nothing was applied."
        assert said == (refusal if lost else "")
        assert file.read_bytes() == (b"old\n" if lost else b"new\n")
        facts = file.stat()
        assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (owner, group, mode)
        assert names_left(folder) == ["file"]


def test_a_bit_that_is_lost_meanwhile_does_not_end_a_roll_back(monkeypatch):
    def lost(descriptor: int, mode: int) -> None:
        raise attributes.LostError("setuid or setgid bit")

    with checkout(b"old\n", 0o644, 2, {}) as folder:
        for name in ("before", "later"):
            (folder / "checkout" / name).write_bytes(b"old\n")
        planned = [
            Change(name, entry(0o644, b"old\n"), entry(0o644, b"new\n")) for name in (b"before", b"file", b"later")
        ]
        with FileTransaction(folder / "checkout", folder / "journal") as exchange:
            exchange.apply(planned)
            monkeypatch.setattr(attributes, "set_mode", lost)
        assert {path.read_bytes() for path in (folder / "checkout").iterdir()} == {b"old\n"}
        assert names_left(folder) == ["before", "file", "later"]
        assert not (folder / "journal").exists()
