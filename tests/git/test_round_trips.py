"""Any state of a checkout becomes a tree of the same bytes; any state of a tree becomes a commit and back."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.git.base.capture import write_base
from understudy.git.diff import file_diffs
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate
from understudy.git.worktree.worktree import create_worktree

NAMES = st.sampled_from([b"a", b"b", b"d/a", b"d/e/x", b"d", b"a/b", b"\xff", b"n\nl", b"-x", b"E", b"e"])
TEXTS = st.sampled_from([b"", b"x\n", b"y\n", b"a\r\nb\r\n", b"a\nb\r\n", b"\0\1", b"l1\nl2\nl3\n" * 5, b"no end"])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, TEXTS),
        st.tuples(st.just("delete"), NAMES, st.just(b"")),
        st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"/etc", b"nowhere", b"."])),
        st.tuples(st.just("execute"), NAMES, st.just(b"")),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("stage"), NAMES, st.just(b"")),
        st.tuples(
            st.just("attributes"), NAMES, st.sampled_from([b"* text=auto\n", b"* text eol=crlf\n", b"a -text\n"])
        ),
    ),
    max_size=8,
)


def remove(full: bytes) -> None:
    if os.path.isdir(full) and not os.path.islink(full):
        shutil.rmtree(full)
    elif os.path.lexists(full):
        os.unlink(full)


def way(root: bytes, name: bytes) -> bytes:
    """Make the folders for a name, whatever is in the way."""
    current = root
    for part in name.split(b"/")[:-1]:
        current += b"/" + part
        if not os.path.isdir(current) or os.path.islink(current):
            remove(current)
            os.mkdir(current)
    full = root + b"/" + name
    remove(full)
    return full


def edit(top: Path, edits, *, stage: bool) -> None:
    root = os.fsencode(top)
    for action, name, value in edits:
        full = root + b"/" + name
        if action == "write":
            with open(way(root, name), "wb") as stream:
                stream.write(value)
        elif action == "delete":
            if not any(os.path.islink(root + b"/" + p) for p in (b"d", b"a") if name.startswith(p + b"/")):
                remove(full)
        elif action == "link":
            os.symlink(value, way(root, name))
        elif action == "execute" and os.path.isfile(full) and not os.path.islink(full):
            if os.path.realpath(full).startswith(os.path.realpath(root)):
                os.chmod(full, 0o755)  # noqa: S103 - what a person does
        elif (
            action == "rename"
            and os.path.lexists(full)
            and os.path.realpath(os.path.dirname(full)).startswith(os.path.realpath(root))
        ):
            aside = root + b"/aside"
            os.rename(full, aside)
            os.rename(aside, way(root, value))
        elif action == "attributes":
            with open(root + b"/.gitattributes", "wb") as stream:
                stream.write(value)
        elif action == "stage" and stage:
            subprocess.run(["git", "add", "-A"], cwd=top, capture_output=True, check=True)


@pytest.mark.hypothesis
@pytest.mark.parametrize("commit", [True, False])
def test_a_tree_is_what_the_user_sees_and_a_snapshot_what_the_agent_left(files, fingerprint, own_home, commit):
    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(first=EDITS, second=EDITS, third=EDITS)
    def check(first, second, third):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            repo = root / "repo"
            repo.mkdir()
            subprocess.run(["git", "init", "-q", "-b", "main", repo], check=True)
            edit(repo, first, stage=False)
            if commit:
                subprocess.run(
                    "git add -A; git commit -qm x --allow-empty", shell=True, cwd=repo, capture_output=True, check=True
                )
            edit(repo, second, stage=True)
            before = fingerprint(repo / ".git")
            repository = locate(repo)
            store = ObjectStore.create(root / "store", repository)
            base = write_base(store, repository)
            tree = create_worktree(store, base, root / "tree")
            seen = files(repo)
            assert files(tree.path) == seen
            assert (
                subprocess.run(["git", "status", "--porcelain"], cwd=tree.path, capture_output=True, check=True).stdout
                == b""
            )
            edit(tree.path, third, stage=False)
            left = files(tree.path)
            shot = tree.snapshot("m", base.commit)
            changed = {each.path for each in file_diffs(store, base.commit, shot.commit)}
            assert bool(changed) == (left != seen)
            tree.materialise(base.commit)
            assert files(tree.path) == seen
            tree.materialise(shot.commit)
            assert files(tree.path) == left
            assert files(create_worktree(store, shot.commit, root / "other").path) == left
            assert fingerprint(repo / ".git") == before

    check()
