"""Worktrees: agents leave no trace elsewhere, snapshots read them, and a commit can be restored exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.git.base.capture import pin
from understudy.git.object_store import ObjectStore
from understudy.git.worktree.cleanup import claim_worktree_path, delete_folder, remove_other_files, repository_key
from understudy.git.worktree.collect import rules_of
from understudy.git.worktree.worktree import Worktree, create_worktree
from understudy.model.errors import ErrorKind, UnderstudyError

ORDINARY = [
    "git stash -q",
    "git config user.email a@b",
    "git checkout -q -b agentbranch",
    "git commit -qam wip",
    "git branch -f feature HEAD; echo z > z; git add z; git commit -qm z; git branch -f feature",
    "git tag v9",
    "printf '#!/bin/sh\\n' > $(git rev-parse --git-path hooks)/pre-commit || mkdir -p .git/hooks",
    "git update-ref refs/heads/main HEAD; git gc -q --prune=now",
    "git worktree prune",
    "git remote add evil /x",
    "git config core.hooksPath .h",
]


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_agent_commands_leave_the_users_repository_alone(bench, fingerprint, files, command):
    bench.init()
    bench.sh("git branch feature; echo dirty >> f1")
    before, seen = fingerprint(bench.repo / ".git"), files(bench.repo)
    _, base, tree = bench.tree()
    (tree.path / "f2").write_text("agent")
    bench.sh(command, tree.path, check=False)
    assert bench.sh("git log -1 --format=%H feature^{commit}", tree.path, check=False)
    assert fingerprint(bench.repo / ".git") == before
    assert files(bench.repo) == seen
    # What the agent did to its .git does not matter: the result is its files.
    shot = tree.snapshot("m", base.commit)
    assert shot.tree == tree.snapshot("m", shot.commit).tree


def test_the_whole_way_leaves_the_users_git_byte_identical(bench, fingerprint):
    bench.init("echo 'ig' > .gitignore")
    bench.sh(
        "git stash -q; echo staged > f1; git add f1; echo x >> f1; echo n > n; git pack-refs --all; git tag -a t -m t"
    )
    before = fingerprint(bench.repo / ".git")
    pin(bench.locate(), "x", bench.locate().head_commit)
    _, base, tree = bench.tree(buffers={"f2": b"unsaved"})
    (tree.path / "f3").write_text("agent")
    shot = tree.snapshot("m", base.commit)
    tree.materialise(base.commit)
    tree.materialise(shot.commit)
    tree.remove(bench.state / "trash")
    assert fingerprint(bench.repo / ".git") == before
    assert bench.sh("git status --porcelain").splitlines() == ["MM f1", "?? n"]


def test_the_trees_git_is_private_and_complete(bench):
    bench.init()
    bench.sh(
        "git branch feature; git tag -a v1 -m v1; git remote add origin https://user:key@example.invalid/; git config user.name U"
    )
    bench.sh("git config alias.x '!evil'; git config core.pager evil; echo x > f1")
    _, base, tree = bench.tree()
    assert (tree.path / ".git").is_dir()
    assert bench.sh("git branch --format='%(refname:short)'", tree.path).split() == ["feature", "main"]
    assert bench.sh("git tag; git rev-parse HEAD main", tree.path).split() == ["v1", base.commit, base.commit]
    assert bench.sh("git remote; ls .git/hooks 2>/dev/null; true", tree.path) == ""
    config = (tree.path / ".git" / "config").read_text()
    assert "evil" not in config
    assert "user" not in config
    assert bench.sh("git log --format=%s", tree.path).split("\n")[1] == "init"


def test_snapshot_follows_the_rules_of_the_base_not_of_the_agent(bench):
    bench.init(
        "printf 'build/\\n*.log\\n' > .gitignore; mkdir sub; printf '/only-here\\n!keep.log\\n' > sub/.gitignore"
    )
    store, base, tree = bench.tree()
    (tree.path / ".gitignore").write_text("hidden.py\n")
    for path in (
        "hidden.py",
        "build/out",
        "a.log",
        "sub/only-here",
        "sub/keep.log",
        "only-here",
        "__pycache__/x.pyc",
        ".understudy-run/prompt.md",
    ):
        (tree.path / path).parent.mkdir(exist_ok=True)
        (tree.path / path).write_text("x")
    shot = tree.snapshot("m", base.commit)
    names = store.git_output("diff-tree", "-r", "--name-only", base.commit, shot.commit).split()
    assert names == [b".gitignore", b"hidden.py", b"only-here", b"sub/keep.log"]
    assert b"/sub/only-here" in rules_of(store, base.commit)
    again = create_worktree(store, shot.commit, bench.state / "again")
    (again.path / "hidden.py").write_text("y")
    (again.path / "hidden.py").rename(again.path / "sub" / "hidden.py")
    again_shot = again.snapshot("m", shot.commit)
    assert (
        b"sub/hidden.py" in store.git_output("diff-tree", "-r", "--name-only", shot.commit, again_shot.commit).split()
    )


def test_snapshot_of_hostile_files(bench, tmp_path):
    bench.init("mkdir d; echo x > d/x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    store, base, tree = bench.tree()
    bench.sh(
        f"rm -r d; ln -s {outside} d; rm f1; mkfifo f1; mkfifo pipe; mkdir .GIT 'git~1'; echo x > .GIT/config; echo x > git~1/x",
        tree.path,
    )
    bench.sh(f"ln -s {outside}/x key; rm f2; mkdir f2; echo y > f2/y; truncate -s 60M large", tree.path)
    shot = tree.snapshot("--message\n", base.commit)
    listing = store.git_output("ls-tree", "-r", "--name-only", shot.commit).split()
    assert listing == [b"d", b"f2/y", b"f3", b"key"]
    assert store.git_output("cat-file", "blob", f"{shot.commit}:d") == os.fsencode(outside)
    assert "3 files" in shot.notes[-1]


def test_a_nested_repository_is_reported_and_its_files_are_kept(bench):
    bench.init("echo '*.log' > .gitignore")
    store, base, tree = bench.tree()
    bench.sh(
        "git init -q app; echo a > app/a; echo l > app/x.log; mkdir app/d; ln -s /etc app/d/l; cd app; git add -A; git commit -qm a",
        tree.path,
    )
    shot = tree.snapshot("m", base.commit)
    assert store.git_output("diff-tree", "-r", "--name-only", base.commit, shot.commit).split() == [
        b"app/a",
        b"app/d/l",
    ]
    assert any("app is a nested repository" in note for note in shot.notes)


def test_snapshot_reads_what_the_agent_locked(bench):
    bench.init()
    store, base, tree = bench.tree()
    bench.sh("mkdir locked; echo x > locked/x; echo y > y; chmod 000 y f1 locked/x locked", tree.path)
    command = (
        "from understudy.git.object_store import ObjectStore; from understudy.git.worktree.worktree import Worktree; from pathlib import Path; import sys;"
        "print(Worktree.open(ObjectStore.open(Path(sys.argv[1])), Path(sys.argv[2])).snapshot('m', sys.argv[3]).commit)"
    )
    # root reads everything; without these two capabilities it does not
    argv = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*argv, sys.executable, "-c", command, store.path, tree.path, base.commit],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    names = store.git_output("ls-tree", "-r", "--name-only", done.stdout.strip()).split()
    assert b"locked/x" in names
    assert b"y" in names


def test_materialise_makes_exactly_the_commit(bench, files, tmp_path):
    bench.init("echo 'ig*' > .gitignore; mkdir d; echo x > d/x; ln -s f1 l; chmod +x f2")
    _store, base, tree = bench.tree()
    exact = files(tree.path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine")
    (outside / "x").chmod(0o600)
    (tree.path / "keep").mkdir()
    (tree.path / "keep" / "me").write_text("bootstrap")
    bench.sh(
        f"echo planted > ignored; mkdir -p ig/deep; echo x > ig/deep/x; rm -r d; ln -s {outside} d; chmod 4755 f1; rm l; echo l > l;"
        f"ln {outside}/x hard; rm f3; ln {outside}/x f3; chmod -x f2; mkfifo p; git init -q n; echo x > n/x; mkdir ro; echo r > ro/r;"
        "chmod 500 ro; rm -rf .git; ln -s / .git; touch -d 2001-01-01 f1",
        tree.path,
    )
    tree.materialise(base.commit, [b"keep/me"])
    found = files(tree.path)
    assert found.pop(b"keep/me") == ("f", b"bootstrap")
    assert found == exact
    assert (outside / "x").read_text() == "mine"
    assert (outside / "x").stat().st_mode & 0o777 == 0o600
    assert (tree.path / "f1").stat().st_mode & 0o7777 == 0o644
    assert (tree.path / ".git").is_dir()
    assert not (tree.path / ".git").is_symlink()
    assert bench.sh("git status --porcelain --ignored", tree.path).split("\n")[0] == "?? keep/"


def test_a_hard_linked_file_is_not_written_in_place(bench, tmp_path):
    bench.init()
    _, base, tree = bench.tree()
    bench.sh(f"ln f1 {tmp_path}/other", tree.path)
    tree.snapshot("m", base.commit)
    tree.materialise(base.commit)
    (tree.path / "f1").write_text("a check writes")
    assert (tmp_path / "other").read_text() == "l1\nl2\nl3\n1\n"


def test_materialise_sees_through_forged_times(bench, files):
    bench.init("printf 'aaaa' > same")
    _, base, tree = bench.tree()
    exact = files(tree.path)
    stamp = (tree.path / "same").stat().st_mtime_ns
    (tree.path / "same").write_bytes(b"bbbb")
    os.utime(tree.path / "same", ns=(stamp, stamp))
    assert tree.snapshot("m", base.commit).commit != base.commit
    (tree.path / "same").write_bytes(b"cccc")
    os.utime(tree.path / "same", ns=(stamp, stamp))
    tree.materialise(base.commit)
    assert files(tree.path) == exact


def test_a_commit_on_another_branch_does_not_matter(bench):
    bench.init()
    store, base, tree = bench.tree()
    bench.sh("git checkout -q -b other; echo x > f1; git commit -qam x; git checkout -q main; echo y > f2", tree.path)
    shot = tree.snapshot("m", base.commit)
    assert store.git_output("diff-tree", "-r", "--name-only", base.commit, shot.commit) == b"f2\n"


def test_a_very_deep_and_locked_folder_is_removed(tmp_path):
    root = tmp_path / "deep"
    root.mkdir()
    (root / "l").symlink_to("/etc")
    here = os.open(root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.fchmod(here, 0)
    os.close(here)
    delete_folder(root)
    assert not root.exists()
    assert Path("/etc").exists()
    delete_folder(root)


def test_a_folder_that_is_being_deleted_appears_under_its_own_name_only(tmp_path, monkeypatch):
    root = tmp_path / "tree"
    (root / ".cache" / "v" / "cache").mkdir(parents=True)
    (root / ".cache" / "v" / "cache" / "file").write_text("x")
    seen = set()
    remove = os.rmdir

    def look(*given, **more):
        seen.update(os.listdir(root))
        remove(*given, **more)

    monkeypatch.setattr(os, "rmdir", look)
    remove_other_files(root, {}, [])
    assert (seen, os.listdir(root)) == ({".cache"}, [])


def test_claims_never_meet(bench):
    bench.init()
    key = repository_key(bench.locate())
    root = bench.state / "trees"
    first, second = claim_worktree_path(root, key), claim_worktree_path(root, key)
    assert [first.path.name, second.path.name] == ["1", "2"]
    store, base = bench.base()
    tree = create_worktree(store, base, first.path)
    second.release()
    assert claim_worktree_path(root, key).path.name == "3"
    tree.remove(bench.state / "trash")
    first.release()
    assert not first.path.exists()
    assert list((bench.state / "trash").iterdir()) == []
    assert claim_worktree_path(root, key).path.name == "1"


def test_trees_are_reopened_and_refused(bench):
    bench.init()
    store, base, tree = bench.tree()
    again = Worktree.open(ObjectStore.open(store.path), tree.path)
    assert again.base == base.commit
    assert json.loads(again.state.read_text())["base"] == base.commit
    with pytest.raises(UnderstudyError) as caught:
        create_worktree(store, base, tree.path)
    assert caught.value.kind is ErrorKind.TARGET_EXISTS
    with pytest.raises(UnderstudyError) as caught:
        ObjectStore.create(store.path, bench.locate())
    assert caught.value.kind is ErrorKind.ALREADY_EXISTS
    delete_folder(tree.path)
    with pytest.raises(UnderstudyError) as caught:
        again.snapshot("m", base.commit)
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE


def test_a_virtual_environment_that_an_agent_makes_is_not_part_of_the_result(bench):
    bench.init()
    store, base, tree = bench.tree()
    bench.sh("mkdir -p env/lib/p; echo home > env/pyvenv.cfg; echo x > env/lib/p/m.py; echo own > env/notes", tree.path)
    shot = tree.snapshot("m", base.commit)
    assert store.git_output("diff-tree", "-r", "--name-only", base.commit, shot.commit).split() == [b"env/notes"]
    assert shot.notes == ["env/ is a virtual environment, which is not part of the result."]
