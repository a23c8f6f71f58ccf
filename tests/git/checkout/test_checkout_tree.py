"""Test what is recorded of a checkout, and that undoing everything restores it byte for byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.git.conftest import Bench, files_of

from understudy.git.apply.transaction import FileTransaction, read_entry
from understudy.git.base.capture import write_base
from understudy.git.checkout import checkout_tree
from understudy.git.diff import file_diffs
from understudy.git.merge import undo as undo_merge
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate
from understudy.git.verification import require_tree

NAMES = ["a", "b.txt", "d/e", "d/f/g", "h", "sp ace", "ümläut", "ignored.log", "l"]
CONTENTS = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b"x\n", b"1\n2\n3\n4\n5\n", b"\0bin", b"no end", b"a\r\nb\r\n"])
)
ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), CONTENTS),
    st.tuples(st.just("append"), st.sampled_from(NAMES), CONTENTS),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(b"")),
    st.tuples(st.just("chmod"), st.sampled_from(NAMES), st.just(b"")),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from([b"a", b"nowhere", b"d"])),
    st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from([os.fsencode(name) for name in NAMES])),
)


def act(top: Path, what: str, name: str, content: bytes) -> None:
    """Do what an agent could do to a file, and make room for it."""
    path = top / name
    for parent in [parent for parent in path.parents if parent != top and top in parent.parents]:
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
    if what in {"delete", "write", "link"} and path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    if what in {"delete", "link"} or path.is_symlink():
        path.unlink(missing_ok=True)
    if what in {"write", "append"} and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((path.read_bytes() if what == "append" and path.exists() else b"") + content)
    elif what == "link":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.fsdecode(content))
    elif what == "chmod" and path.is_file():
        path.chmod(path.stat().st_mode ^ 0o111)
    elif what == "move" and path.is_file():
        target = top / os.fsdecode(content)
        act(top, "write", os.fsdecode(content), path.read_bytes())
        if target != path:
            path.unlink()


def state_of(top: Path) -> dict[bytes, Any]:
    """Return kind, executable bit and content of everything but empty folders."""
    found = files_of(top)
    return {
        path: (kind, os.lstat(os.fsencode(top) + b"/" + path).st_mode & 0o111, data)
        for path, (kind, data) in found.items()
    }


def undo_everything(store: ObjectStore, top: Path, collected: checkout_tree.Collected, journal: Path) -> None:
    record = undo_merge.record(store, collected.changes)
    with FileTransaction(top, journal) as files:
        files.apply(undo_merge.undo(store, record, lambda path: read_entry(top, path)))
        files.commit()


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    committed=st.dictionaries(st.sampled_from(NAMES[:5]), CONTENTS, max_size=5),
    untracked=st.dictionaries(st.sampled_from(NAMES[5:8]), CONTENTS, max_size=3),
    edited=st.lists(ACTIONS, max_size=2),
    done=st.lists(ACTIONS, max_size=8),
)
def test_undoing_everything_restores_the_checkout_byte_for_byte(
    committed: dict[str, bytes], untracked: dict[str, bytes], edited: list[Any], done: list[Any]
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        bench = Bench(Path(folder))
        top = bench.repo
        bench.sh("git init -q -b main; echo '*.log' > .gitignore")
        for name, content in committed.items():
            act(top, "write", name, content)
        bench.sh("git add -A; git -c user.name=a -c user.email=a@b commit -qm init")
        for name, content in untracked.items():
            act(top, "write", name, content)
        for action in edited:
            act(top, *action)
        before = state_of(top)
        git = bench.sh("git status --porcelain=v2 -z; git ls-files -s; git rev-parse HEAD")
        store = ObjectStore.create(bench.state / "store", locate(top))
        base = write_base(store, locate(top))
        beginning = checkout_tree.begin(store, locate(top))
        assert require_tree(store, base.commit) == require_tree(store, beginning.commit)
        for action in done:
            act(top, *action)
        after = state_of(top)
        collected = checkout_tree.collect(store, top, (base.commit, beginning), saved=dict, message="m")
        assert state_of(top) == after, "collecting only reads"
        ignored = {path for path in before.keys() | after.keys() if path.endswith(b".log")}
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} - ignored
        assert {change.path for change in collected.changes} == changed
        listed = file_diffs(store, base.commit, collected.commit)
        assert bool(listed) == bool(changed)
        undo_everything(store, top, collected, bench.state / "journal")
        restored = state_of(top)
        assert {path: one for path, one in restored.items() if path not in ignored} == {
            path: one for path, one in before.items() if path not in ignored
        }
        assert bench.sh("git status --porcelain=v2 -z; git ls-files -s; git rev-parse HEAD") == git


def test_what_the_user_saved_last_is_the_state_before(bench: Bench) -> None:
    def saved(content: bytes | None, *, known: bool = True) -> checkout_tree.SavedText:
        digest = hashlib.sha256(content).hexdigest() if content is not None and known else ""
        return checkout_tree.SavedText(content is not None, digest, content if known else None)

    bench.init("for f in theirs both removed back unknown gone; do echo start > $f; done")
    top = bench.repo
    store, base = bench.base()
    beginning = checkout_tree.begin(store, bench.locate())
    now = {
        "theirs": b"user\n",
        "both": b"user and agent\n",
        "back": b"agent\n",
        "unknown": b"agent\n",
        "new": b"user\n",
    }
    for name, content in now.items():
        (top / name).write_bytes(content)
    (top / "removed").unlink()
    (top / "gone").unlink()
    found = checkout_tree.collect(
        store,
        top,
        (base.commit, beginning),
        saved=lambda: {
            b"theirs": [saved(b"user\n")],
            b"new": [saved(b"user\n")],
            b"both": [saved(b"user\n")],
            b"removed": [saved(None)],  # by the user
            b"back": [saved(None)],  # removed by the user, made again by the agent
            b"unknown": [saved(b"large\n", known=False)],
            b"gone": [saved(b"user\n")],  # saved by the user, removed by the agent
        },
        message="m",
    )
    before = {change.path: change.before.content if change.before else None for change in found.changes}
    assert before == {b"both": b"user\n", b"back": None, b"unknown": b"start\n", b"gone": b"user\n"}
    said = "\n".join(found.notes)
    assert "You saved new, removed, theirs while the agent worked." in said
    assert "You and the agent both changed back, both, gone, unknown" in said
    assert "What you saved in unknown was too large to be kept." in said
    undo_everything(store, top, found, bench.state / "journal")
    restored = {path: content for path, (_, content) in files_of(top).items() if path[:1] != b"f"}
    assert restored == {
        b"theirs": b"user\n",
        b"new": b"user\n",
        b"both": b"user\n",
        b"unknown": b"start\n",
        b"gone": b"user\n",
    }


def test_what_is_saved_while_the_files_are_read_stays_the_users(bench: Bench) -> None:
    """Whether the save is seen on disk, or only in the record; an earlier save does not count again."""
    bench.init("for f in seen unseen back; do echo start > $f; done")
    top = bench.repo
    store, base = bench.base()
    beginning = checkout_tree.begin(store, bench.locate())
    (top / "seen").write_bytes(b"user\n")
    (top / "unseen").write_bytes(b"agent\n")
    (top / "back").write_bytes(b"user\n")  # by the agent, after the user saved something else

    def save(text: bytes) -> checkout_tree.SavedText:
        return checkout_tree.SavedText(exists=True, digest=hashlib.sha256(text).hexdigest(), content=text)

    earlier = {b"back": [save(b"user\n"), save(b"user, later\n")]}
    looks = iter(
        [earlier, earlier | {b"seen": [save(b"user\n"), save(b"user, later\n")], b"unseen": [save(b"user, later\n")]}]
    )

    def saved() -> dict[bytes, list[checkout_tree.SavedText]]:
        found = next(looks)
        for name in found.keys() - {b"back"}:
            (top / os.fsdecode(name)).write_bytes(b"user, later\n")
        return found

    found = checkout_tree.collect(store, top, (base.commit, beginning), saved=saved, message="m")
    assert sorted(change.path for change in found.changes) == [b"back", b"unseen"]
    undo_everything(store, top, found, bench.state / "journal")
    assert [(top / name).read_bytes() for name in ("seen", "unseen", "back")] == [b"user, later\n"] * 3
