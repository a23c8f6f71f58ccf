"""What was removed comes back byte for byte, whatever the agent left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.git.diff import file_diffs
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import rescue
from understudy.git.worktree.cleanup import delete_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import c_quote


def everything(root: Path) -> dict[bytes, tuple]:
    """Every path below with its kind, permissions and contents, `.git` included."""
    top = os.fsencode(root)
    found = {}
    for folder, folders, names in os.walk(top):
        for name in [*folders, *names]:
            full = os.path.join(folder, name)
            status = os.lstat(full)
            path = os.path.relpath(full, top)
            if stat.S_ISLNK(status.st_mode):
                found[path] = ("link", os.readlink(full))
            elif stat.S_ISDIR(status.st_mode):
                found[path] = ("folder", stat.S_IMODE(status.st_mode))
            elif stat.S_ISREG(status.st_mode):
                with open(full, "rb") as stream:
                    found[path] = ("file", stat.S_IMODE(status.st_mode), status.st_mtime_ns, stream.read())
    return found


def agent_works(bench, path: Path) -> None:
    bench.sh("git checkout -qb work; echo 2 >> f1; git commit -qam one; echo staged > s; git add s", path)
    bench.sh("printf 'l1\\nX\\n' > f2; rm f3; mkdir -p empty d; echo '*.log' > .gitignore; echo i > a.log", path)
    bench.sh("ln -s /etc/passwd link; chmod 755 f2; echo stashed > st; git add st; git stash -q -- st", path)
    (path / os.fsdecode(b"\xff\n odd")).write_bytes(b"\0\xff")
    (path / "d" / "closed").write_bytes(b"x")
    (path / "d" / "closed").chmod(0o400)
    (path / "d").chmod(0o500)


@pytest.mark.parametrize("lost", ["tree", "tree and store", "tree, store and the user's history"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_tree_comes_back_with_its_history_and_can_be_reviewed(bench, lost, elsewhere):
    bench.init()
    bench.sh("echo dirty >> f1; echo new > untracked")
    store, base, tree = bench.tree()
    agent_works(bench, tree.path)
    snapshot = tree.snapshot("work", base.commit)
    diffs = file_diffs(store, base.commit, snapshot.commit)
    state_of_git = bench.sh("git status --porcelain=v2 --branch; git log --oneline; git stash list", tree.path)
    before = everything(tree.path)
    ref = rescue.save(bench.state, bench.locate(), tree, store, "20261121-004512-k3f9q")
    assert [each.ref for each in rescue.list_rescues(bench.state)] == [ref]
    tree.remove(bench.state / "trash")
    if "store" in lost:
        delete_folder(store.path)
    if "history" in lost:
        bench.sh("rm -rf .git; git init -q")
    target = bench.state / "elsewhere" if elsewhere else tree.path
    back = rescue.restore(bench.state, ref, target)
    assert back.path == target
    assert everything(target) == before
    opened = ObjectStore.open(store.path)
    assert file_diffs(opened, base.commit, snapshot.commit) == diffs
    assert back.snapshot("work", base.commit).tree == snapshot.tree
    if "history" not in lost:
        assert bench.sh("git status --porcelain=v2 --branch; git log --oneline; git stash list", target) == state_of_git
    back.materialise(snapshot.commit)


def test_the_rescue_repository_borrows_nothing(bench):
    bench.init()
    store, _, tree = bench.tree()
    ref = rescue.save(bench.state, bench.locate(), tree, store, "one")
    place = bench.state / "rescue" / (ref.partition("/")[0] + ".git")
    assert not (place / "objects" / "info" / "alternates").exists()
    shutil.rmtree(bench.repo)
    delete_folder(store.path)
    bench.sh(f"git --git-dir={place} fsck --full --strict", bench.root)
    bench.sh(f"git --git-dir={place} gc -q --prune=now", bench.root)
    shutil.rmtree(tree.path)
    back = rescue.restore(bench.state, ref, tree.path)
    assert (back.path / "f1").read_bytes() == b"l1\nl2\nl3\n1\n"


def test_what_is_too_large_and_ignored_is_named(bench, monkeypatch):
    bench.init("echo '*.bin' > .gitignore")
    store, _, tree = bench.tree()
    monkeypatch.setattr(rescue, "IGNORED_FILE_BYTES", 10)
    (tree.path / "large.bin").write_bytes(b"x" * 11)
    (tree.path / "small.bin").write_bytes(b"x" * 10)
    (tree.path / "large").write_bytes(b"x" * 11)
    os.mkfifo(tree.path / "pipe")
    ref = rescue.save(bench.state, bench.locate(), tree, store, "one")
    (note,) = rescue.list_rescues(bench.state)[0].notes
    assert "large.bin" in note
    assert "pipe" in note
    tree.remove(bench.state / "trash")
    back = rescue.restore(bench.state, ref, tree.path)
    assert {"small.bin", "large", "f1"} <= set(os.listdir(back.path))
    assert "large.bin" not in os.listdir(back.path)


def test_a_name_that_is_taken_gets_the_next_number(bench):
    bench.init()
    store, _, tree = bench.tree()
    contents, names = {}, []
    for number in range(3):
        (tree.path / "f1").write_bytes(b"%d" % number)
        names.append(rescue.save(bench.state, bench.locate(), tree, store, "one"))
        contents[names[-1]] = b"%d" % number
    assert [name.rpartition("/")[2] for name in names] == ["one", "one-2", "one-3"]
    key, _, name = names[1].partition("/")
    bench.sh(f"git --git-dir={bench.state}/rescue/{key}.git update-ref -d refs/heads/{name}")
    assert rescue.save(bench.state, bench.locate(), tree, store, "one").endswith("/one-4"), "no number is used again"
    assert rescue.save(bench.state, bench.locate(), tree, store, "one-3").endswith("/one-3-2")
    tree.remove(bench.state / "trash")
    for name in (names[0], names[2]):
        back = rescue.restore(bench.state, name, tree.path)
        assert (back.path / "f1").read_bytes() == contents[name]
        back.remove(bench.state / "trash")


def test_names_that_are_invalid_or_unknown_are_refused(bench):
    bench.init()
    store, _, tree = bench.tree()
    ref = rescue.save(bench.state, bench.locate(), tree, store, "one")
    cases = [
        (lambda: rescue.save(bench.state, bench.locate(), tree, store, "../x"), ErrorKind.INVALID_PARAMS),
        (lambda: rescue.restore(bench.state, ref + "x", bench.state / "new"), ErrorKind.UNKNOWN_DELEGATION),
        (lambda: rescue.restore(bench.state, "../../etc", bench.state / "new"), ErrorKind.UNKNOWN_DELEGATION),
        (lambda: rescue.restore(bench.state, ref, tree.path), ErrorKind.TARGET_EXISTS),
    ]
    for action, kind in cases:
        with pytest.raises(UnderstudyError) as caught:
            action()
        assert caught.value.kind is kind


@pytest.mark.parametrize("lost", ["HEAD:f3", "HEAD:d", "HEAD^{tree}", "HEAD"])
def test_a_worktree_that_could_not_be_restored_is_not_kept(bench, lost):
    """An object that the base borrows is gone: of a file that the agent never touched, of a folder, of the commit."""
    bench.init("mkdir d; echo d > d/d")
    store, _, tree = bench.tree()
    (tree.path / "f1").write_bytes(b"the agent's")
    gone = bench.sh(f"git rev-parse {lost}").strip()
    (bench.repo / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    before = everything(tree.path)
    with pytest.raises(UnderstudyError) as caught:
        rescue.save(bench.state, bench.locate(), tree, store, "one")
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert str(tree.path) in caught.value.message
    assert "git fsck" in (caught.value.hint or "")
    assert rescue.list_rescues(bench.state) == []
    assert everything(tree.path) == before
    # An empty index first: git does not write a folder again that a valid index of it stands for.
    bench.sh("git hash-object -w f1 f2 f3 d/d; git read-tree --empty; git add -A; git write-tree")
    if lost in {"HEAD:f3", "HEAD:d", "HEAD^{tree}"}:  # it was only lost for a while
        ref = rescue.save(bench.state, bench.locate(), tree, store, "one")
        tree.remove(bench.state / "trash")
        assert everything(rescue.restore(bench.state, ref, tree.path).path) == before


def test_a_file_that_is_damaged_in_the_rescue_repository_is_named(bench):
    """For an object that is damaged, unlike for one that is missing, git ends with an exit code other than 0."""
    bench.init()
    store, _, tree = bench.tree()
    (tree.path / "new").write_bytes(os.urandom(4096))
    ref = rescue.save(bench.state, bench.locate(), tree, store, "one")
    identifier = bench.sh("git hash-object new", tree.path).strip()
    tree.remove(bench.state / "trash")
    [loose] = (bench.state / "rescue").glob(f"*.git/objects/{identifier[:2]}/{identifier[2:]}")
    loose.chmod(0o600)
    os.truncate(loose, 2000)
    with pytest.raises(UnderstudyError, match=f"{identifier[:12]} .* is damaged") as caught:
        rescue.restore(bench.state, ref, tree.path)
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert not tree.path.exists()


def test_missing_objects_of_other_history_do_not_matter(bench):
    """Commits that the tree does not build on are kept if they can be."""
    bench.init()
    store, _, tree = bench.tree()
    bench.sh("echo later > later; git add -A; git commit -qm later")
    gone = bench.sh("git rev-parse HEAD:later").strip()
    (bench.repo / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    before = everything(tree.path)
    later = bench.sh("git rev-parse HEAD").strip()
    ref = rescue.save(bench.state, bench.locate(), tree, store, "one", also=[later, "0" * 40])
    tree.remove(bench.state / "trash")
    assert everything(rescue.restore(bench.state, ref, tree.path).path) == before


NAMES = st.sampled_from([b"a", b"f1", b"d/x", b"d/y/z", b"\xff", b"n\nl", b".gitignore", b"-x", b"x.log", b"S"])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from([b"", b"1\n", b"\0\1", b"*.log\n", b"l1\n" * 400])),
        st.tuples(st.just("mode"), NAMES, st.sampled_from([0o600, 0o755, 0o444, 0o666])),
        st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"/etc", b"nowhere"])),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("git"), st.just(b""), st.sampled_from(["add -A", "commit -qm x --allow-empty", "stash -q", "checkout -qB other", "checkout -q --detach", "tag -f t"])),
    ),
    max_size=9,
)  # fmt: skip


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=ACTIONS)
def test_any_state_of_a_tree_comes_back(bench, actions):
    if not (bench.repo / ".git").exists():
        bench.init("echo '*.log' > .gitignore")
    store, _, tree = bench.tree()
    top = os.fsencode(tree.path)
    for kind, name, value in actions:
        full = os.path.join(top, name)
        if kind == "git":
            subprocess.run(["git", *value.split()], cwd=tree.path, capture_output=True, check=False)
            continue
        try:
            if kind == "write":
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "wb") as stream:
                    stream.write(value)
            elif kind == "mode":
                os.chmod(full, value, follow_symlinks=True) if not os.path.islink(full) else None
            elif kind == "link":
                os.symlink(value, full)
            else:
                os.unlink(full)
        except OSError:
            continue
    before = everything(tree.path)
    ref = rescue.save(bench.state, bench.locate(), tree, store, f"n{bench.count}")
    tree.remove(bench.state / "trash")
    if bench.count % 2:
        delete_folder(store.path)
    assert everything(rescue.restore(bench.state, ref, tree.path).path) == before, [c_quote(n) for _, n, _ in actions]
