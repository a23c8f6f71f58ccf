"""Damage objects of a store in every way that git does not notice: it is found, and repaired from a copy."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from understudy.git import verification
from understudy.git.diff import file_diffs, read_file, splits, unified
from understudy.git.object_store import ObjectStore
from understudy.git.objects import read_blobs, write_blob
from understudy.git.worktree.collect import TrackedContent
from understudy.model.errors import ErrorKind, UnderstudyError

EVIL = b"evil\n"


def loose(store: ObjectStore, identifier: str) -> Path:
    return store.path / "objects" / identifier[:2] / identifier[2:]


def replace(store: ObjectStore, identifier: str, content: bytes, kind: bytes = b"blob") -> None:
    """Let the store have other content under this name."""
    target = loose(store, identifier)
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(zlib.compress(kind + b" %d\0" % len(content) + content))


def hide_in_a_pack(store: ObjectStore, identifier: str, content: bytes) -> None:
    """Add a pack whose index gives the content another name."""
    evil = write_blob(store, content)
    out = subprocess.run(
        ["git", "pack-objects", "-q", str(store.path / "objects/pack/pack")],
        input=evil.encode(),
        env={**os.environ, "GIT_DIR": str(store.path)},
        capture_output=True,
        check=True,
    )
    index = store.path / "objects/pack" / f"pack-{out.stdout.decode().strip()}.idx"
    data = bytearray(index.read_bytes())
    index.chmod(0o600)
    first = int(identifier[:2], 16)
    for number in range(256):
        data[8 + 4 * number : 12 + 4 * number] = (1 if number >= first else 0).to_bytes(4, "big")
    data[8 + 1024 : 8 + 1024 + 20] = bytes.fromhex(identifier)
    index.write_bytes(data)
    loose(store, evil).unlink()
    loose(store, identifier).unlink(missing_ok=True)


@pytest.fixture
def result(bench, tmp_path):
    """A store with a copy of its result: base, head, and the blob of the changed file."""
    bench.init("mkdir -p a/b; echo old > a/b/code.py")
    store, base, tree = bench.tree()
    (tree.path / "a/b/code.py").write_text("new\n")
    (tree.path / "a/b/added.py").write_text("added\n")
    head = tree.snapshot("work", base.commit).commit
    copy = tmp_path / "result.pack"
    verification.write_copy(store, copy, head, base.commit)
    kept = dataclasses.replace(store, copies=(copy,))
    change = next(split.change for split in splits(store, base.commit, head) if split.change.path == b"a/b/code.py")
    return kept, base.commit, head, change.new_blob, tree


@pytest.mark.parametrize("damage", [replace, hide_in_a_pack])
def test_a_replaced_blob_is_neither_shown_nor_merged(result, damage):
    store, base, head, blob, _ = result
    damage(store, blob, EVIL)
    assert b"+new\n" in unified(store, base, head)
    damage(store, blob, EVIL)
    assert read_blobs(store, [blob]) == {blob: b"new\n"}
    damage(store, blob, EVIL)
    assert read_file(store, head, b"a/b/code.py") == (b"new\n", "100644")


@pytest.mark.parametrize("damage", [replace, hide_in_a_pack])
def test_without_a_copy_nothing_is_shown(result, damage):
    store, base, head, blob, _ = result
    bare = dataclasses.replace(store, copies=())
    damage(store, blob, EVIL)
    for read in (
        lambda: unified(bare, base, head),
        lambda: read_blobs(bare, [blob]),
        lambda: read_file(bare, head, b"a/b/code.py"),
    ):
        with pytest.raises(UnderstudyError) as caught:
            read()
        assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE


def test_a_replaced_folder_is_repaired(result):
    store, base, head, _, _ = result
    folder = subprocess.run(
        ["git", "rev-parse", f"{head}:a/b"],
        env={**os.environ, "GIT_DIR": str(store.path)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout.strip()
    evil = bytes.fromhex(write_blob(store, EVIL))
    replace(store, folder, b"100644 code.py\0" + evil, b"tree")
    assert [found.path for found in file_diffs(store, base, head)] == ["a/b/added.py", "a/b/code.py"]
    replace(store, folder, b"100644 code.py\0" + evil, b"tree")
    assert read_file(store, head, b"a/b/code.py") == (b"new\n", "100644")
    replace(store, folder, b"100644 code.py\0" + evil, b"tree")
    assert b"a/b/added.py" in verification.require_tree(store, head)


def test_paths_are_found_in_verified_trees_that_are_read_once(result, monkeypatch):
    store, base, head, blob, _ = result
    paths = [b"a/b/code.py", b"a/b/added.py", b"a/b", b"a", b"a/b/code.py/x", b"none", b"a/none/x", b"a/b/none"]
    found = [verification.find_path(store, commit, path) for commit in (base, head) for path in paths]
    evil = bytes.fromhex(write_blob(store, EVIL))
    _, folder = verification.VerifiedTrees(store).find(head, b"a/b")
    replace(store, folder, b"100644 code.py\0" + evil, b"tree")
    trees = verification.VerifiedTrees(store)
    known = [trees.find(commit, path) for commit in (base, head) for path in paths]
    assert known == [(entry.mode, entry.identifier) if entry is not None else None for entry in found]
    assert trees.find(head, b"a/b/code.py") == ("100644", blob)
    monkeypatch.setattr(ObjectStore, "run_git", None)
    assert [trees.find(commit, path) for commit in (base, head) for path in paths] == known


def test_a_replaced_commit_does_not_change_its_tree(result):
    store, _base, head, _, _ = result
    before = verification.tree_of(store, head)
    content = f"tree {store.empty_tree}\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\nx\n".encode()
    replace(store, head, content, b"commit")
    assert verification.tree_of(store, head) == before


def test_truncated_objects_are_found_among_good_ones(result):
    store, _base, _head, blob, _ = result
    good = write_blob(store, b"good\n")
    target = loose(store, blob)
    target.chmod(0o600)
    target.write_bytes(target.read_bytes()[:5])
    missing = "1" * 40
    assert verification.damaged_objects(store.path, [good, blob, missing, good], "sha1") == [blob, missing]
    replace(store, blob, b"x" * 3_000_000)
    assert verification.damaged_objects(store.path, [blob, good], "sha1") == [blob]


def test_an_object_that_was_planted_before_the_snapshot_is_written_again(bench):
    bench.init()
    store, base, tree = bench.tree()
    blob = write_blob(store, b"new\n")
    replace(store, blob, EVIL)
    (tree.path / "f1").write_text("new\n")
    head = tree.snapshot("work", base.commit).commit
    assert read_file(store, head, b"f1") == (b"new\n", "100644")


def test_an_alternate_that_was_added_is_ignored(result, tmp_path):
    store, base, head, _, _ = result
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", "--bare", str(other)], check=True)
    expected = (store.path / "objects/info/alternates").read_bytes()
    (store.path / "objects/info/alternates").write_text(f"{other}/objects\n")
    unified(store, base, head)
    assert (store.path / "objects/info/alternates").read_bytes() == expected


@pytest.mark.parametrize(
    "edit",
    [
        "echo evil > a/b/code.py",
        "printf 'old\\n' > x && cat x > a/b/code.py && rm x && printf 'olx\\n' | dd of=a/b/code.py conv=notrunc status=none && touch -d @1 a/b/code.py",
        "rm a/b/code.py",
        "chmod +x a/b/code.py",
        "mv a/b/code.py c; ln -s ../../c a/b/code.py",
        "mv a elsewhere; ln -s elsewhere a",
        "rm a/b/code.py; mkfifo a/b/code.py",
    ],
)
def test_a_file_that_differs_in_content_or_kind_is_found(bench, edit):
    bench.init("mkdir -p a/b; echo old > a/b/code.py")
    store, base, tree = bench.tree()
    content = TrackedContent(store, tree.path)
    assert content.differing(base.commit) == []
    bench.sh(edit, cwd=tree.path)
    assert content.differing(base.commit) == [b"a/b/code.py"]


def test_times_and_untracked_files_are_no_difference(bench):
    bench.init("ln -s f1 link")
    store, base, tree = bench.tree()
    content = TrackedContent(store, tree.path)
    assert content.differing(base.commit) == []
    bench.sh("touch f1; cp f2 x; mv x f2; mkdir cache; echo x > cache/new", cwd=tree.path)
    assert content.differing(base.commit) == []


def test_a_rewrite_in_the_same_instant_is_found(bench):
    bench.init()
    store, base, tree = bench.tree()
    content = TrackedContent(store, tree.path)
    original = (tree.path / "f1").read_bytes()
    for number in range(50):
        (tree.path / "f1").write_bytes(original)
        assert content.differing(base.commit) == [], number
        (tree.path / "f1").write_bytes(b"X" + original[1:])
        assert content.differing(base.commit) == [b"f1"], number
