"""Every odd situation of a user's checkout, one test each: the tree is what the user sees, the user's `.git` stays."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from understudy.git.base.capture import pin, unpin
from understudy.git.base.index import BaseLimits
from understudy.git.object_store import ObjectStore
from understudy.git.path_rules import collisions
from understudy.git.repository import locate, top_of
from understudy.git.worktree.worktree import create_worktree
from understudy.model.config import delegators
from understudy.model.errors import ErrorKind, UnderstudyError


def status(path: Path) -> str:
    return subprocess.run(["git", "status", "--porcelain"], cwd=path, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def same(bench, files, fingerprint):
    """Make a tree and show: it equals the checkout, `git status` in it is clean, the user's `.git` is unchanged."""

    def check(*, without: set[bytes] = frozenset(), path: Path | None = None, clean: bool = True, **keywords):
        top = path or bench.repo
        before = fingerprint(top / ".git") if (top / ".git").is_dir() else None
        store, base, tree = bench.tree(path, **keywords)
        seen = files(top)
        assert files(tree.path) == {name: what for name, what in seen.items() if name not in without}
        if clean:
            assert status(tree.path) == ""
        if before is not None:
            assert fingerprint(top / ".git") == before
        return store, base, tree

    return check


def refused(bench, **keywords) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        bench.tree(**keywords)
    return caught.value


def test_everything_the_user_sees(bench, same):
    bench.init("printf 'ignored\\n' > .gitignore; mkdir d; echo d > d/d")
    bench.sh(
        "echo staged > f1; git add f1; echo unstaged >> f1; rm f2; git mv f3 moved; echo new > d/new;"
        "chmod +x d/d; echo no > ignored"
    )
    _, base, _ = same(without={b"ignored"})
    assert base.files == 5
    assert base.left_out == []


def test_the_base_is_head_when_nothing_differs(bench, same):
    bench.init()
    _, base, _ = same()
    assert base.commit == bench.locate().head_commit


def test_unsaved_buffers_override_the_files(bench):
    bench.init("echo 'ignored' > .gitignore; ln -s f2 link")
    _store, base, tree = bench.tree(
        buffers={"f1": b"unsaved\r\n", "new/file": b"\xff", "link": b"through", "ignored": b"no", ".env": b"no"}
    )
    assert (tree.path / "f1").read_bytes() == b"unsaved\r\n"
    assert (tree.path / "new" / "file").read_bytes() == b"\xff"
    assert (tree.path / "f2").read_bytes() == b"through"
    assert (tree.path / "link").is_symlink()
    assert not (tree.path / "ignored").exists()
    assert base.left_out == [".env", "ignored"]
    assert (bench.repo / "f1").read_bytes() != b"unsaved\r\n"


def test_a_virtual_environment_that_git_does_not_ignore_is_left_out(bench, same):
    bench.init()
    bench.sh(
        "mkdir -p .venv/lib/p tracked/bin; echo home > .venv/pyvenv.cfg; echo x > .venv/lib/p/m.py; echo own > .venv/my;"
        "echo home > tracked/pyvenv.cfg; echo x > tracked/bin/x; git add tracked; echo home > pyvenv.cfg; mkdir lib; echo > lib/a"
    )
    _, base, _ = same(without={b".venv/pyvenv.cfg", b".venv/lib/p/m.py"})
    assert base.left_out == [".venv/"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".git/config", "a/../../x", ".GIT/x"])
def test_a_buffer_outside_the_workspace_is_refused(bench, path):
    bench.init()
    assert refused(bench, buffers={path: b"x"}).kind is ErrorKind.PATH_ESCAPE


def test_no_commits_yet(bench, same):
    bench.sh("git init -q -b trunk; echo a > a; git add a; echo b > b")
    store, base, tree = same()
    assert store.git_output("rev-list", "--count", base.commit) == b"1\n"
    assert bench.sh("git symbolic-ref HEAD", tree.path) == "refs/heads/trunk\n"
    pin(bench.locate(), "x", bench.locate().head_commit or "")
    assert bench.sh("git for-each-ref") == ""


def test_not_a_repository(bench, same):
    bench.sh("mkdir d; echo a > a; echo 'no*' > .gitignore; echo b > d/b; echo n > no1; ln -s /nowhere l")
    _, base, _tree = same(without={b"no1"})
    assert base.files == 4
    assert top_of(bench.repo / "d" / "b") == bench.repo / "d"
    assert not (bench.repo / ".git").exists()


def test_head_and_a_revision_as_base(bench):
    bench.init()
    bench.sh("git tag v1; echo 2 > f1; git commit -qam two; echo 3 > f1")
    for kind, text in (("head", "2\n"), ("v1", "l1\nl2\nl3\n1\n")):
        assert (bench.tree(kind=kind)[2].path / "f1").read_text() == text
    assert refused(bench, kind="--output=x").kind is ErrorKind.BASE_UNAVAILABLE


def test_detached_head(bench, same):
    bench.init()
    bench.sh("git checkout -q --detach; echo x > f1")
    _, base, tree = same()
    assert (tree.path / ".git" / "HEAD").read_text().strip() == base.commit


def test_linked_worktree(bench, same, fingerprint):
    bench.init()
    linked = bench.root / "linked"
    bench.sh(f"git worktree add -q -b other {linked}; echo x > {linked}/f1")
    before = fingerprint(bench.repo / ".git")
    _store, _base, tree = same(path=linked)
    assert fingerprint(bench.repo / ".git") == before
    assert bench.sh("git branch --show-current", tree.path) == "other\n"
    pin(locate(linked), "x", locate(linked).head_commit)
    assert "refs/understudy/base=x" in bench.sh("git for-each-ref")


def test_shallow(bench, same):
    bench.init()
    bench.sh("echo 2 > f1; git commit -qam two")
    shallow = bench.root / "shallow"
    bench.sh(f"git clone -q --depth 1 file://{bench.repo} {shallow}; echo x > {shallow}/f2")
    _, _, tree = same(path=shallow)
    assert bench.sh("git log --oneline | wc -l", tree.path).strip() == "2"


def test_submodules(bench, same):
    sub = bench.root / "sub"
    bench.sh(f"git init -q {sub}; cd {sub}; echo s > s; git add s; git commit -qm s", bench.root)
    bench.init()
    bench.sh(
        f"git -c protocol.file.allow=always submodule --quiet add {sub} mod; git commit -qm mod; echo x > mod/dirty"
    )
    _store, base, tree = same(without={b"mod/dirty"})
    assert "mod is at its recorded commit" in base.notes[0]
    assert locate(bench.repo / "mod" / "s").top == bench.repo / "mod"
    (tree.path / "mod" / "s").write_text("agent")
    left_out = "A changed file in the submodule mod is not part of the result: s"
    assert tree.snapshot("m", base.commit).notes == [left_out]
    (tree.path / "mod" / "t").write_text("agent")
    shot = tree.snapshot("m", base.commit)
    assert shot.commit == base.commit
    assert "s, t" in shot.notes[0]
    tree.materialise(base.commit)
    assert (tree.path / "mod" / "s").read_text() == "s\n"
    assert not (tree.path / "mod" / "t").exists()


def test_a_submodule_that_was_never_fetched_is_empty(bench):
    bench.init(f"git update-index --add --cacheinfo 160000,{'1' * 40},mod; mkdir mod")
    _, base, tree = bench.tree()
    assert list((tree.path / "mod").iterdir()) == []
    assert "is empty" in base.notes[0]


def pointer(content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n".encode()


def test_lfs_files_stay_pointers(bench):
    bench.sh("git init -q -b main; echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes")
    content = os.urandom(5000)
    for name in ("same.bin", "touched.bin", "changed.bin", "unsmudged.bin", "huge.bin"):
        (bench.repo / name).write_bytes(pointer(content))
    bench.sh("git add -A; git commit -qm lfs")
    # What `git lfs checkout` leaves: contents in the checkout, pointers in the index, known as unchanged.
    for name in ("same.bin", "touched.bin", "changed.bin", "huge.bin"):
        (bench.repo / name).write_bytes(content)
    (bench.repo / "clean.sh").write_text("#!/bin/sh\nh=$(cat | sha256sum | cut -c1-64)\n")
    entries = bench.sh("git ls-files -s same.bin").split()
    config = f"-c filter.lfs.clean='git cat-file blob {entries[1]}' -c filter.lfs.smudge=cat"
    bench.sh(f"rm clean.sh; sleep 1.1; git {config} add -A; git {config} status --porcelain")
    bench.sh("touch touched.bin; echo more >> changed.bin; head -c 6000000 /dev/urandom > huge.bin")
    _, base, tree = bench.tree()
    for name in ("same.bin", "touched.bin", "unsmudged.bin", "huge.bin"):
        assert (tree.path / name).read_bytes() == pointer(content), name
    assert (tree.path / "changed.bin").read_bytes() == (bench.repo / "changed.bin").read_bytes()
    assert base.left_out == ["huge.bin"]
    assert any("changed.bin" in note for note in base.notes)


def test_other_filters_are_never_run_and_named(bench, same, executed):
    bench.init("echo '*.nb filter=fmt' > .gitattributes; echo clean > a.nb")
    bench.sh(
        f"git config filter.fmt.clean {executed.parent}/payload.sh; git config filter.fmt.smudge {executed.parent}/payload.sh; echo x > a.nb"
    )
    _, base, _ = same()
    assert any("a.nb" in note and "filter" in note for note in base.notes)
    assert not executed.exists()


def test_sparse(bench, same):
    bench.init("mkdir a b; echo a > a/a; echo b > b/b")
    bench.sh("git sparse-checkout set a; echo x > a/a; echo y > f1")
    store, base, tree = same()
    assert not (tree.path / "b").exists()
    assert bench.sh("git sparse-checkout list", tree.path) == "a\n"
    assert b"b/b" in store.git_output("ls-tree", "-r", "--name-only", base.commit)
    # What an agent adds outside the cone is judged all the same.
    (tree.path / "b").mkdir()
    (tree.path / "b" / "b").write_text("agent")
    shot = tree.snapshot("m", base.commit)
    tree.materialise(base.commit)
    assert not (tree.path / "b").exists()
    tree.materialise(shot.commit)
    assert (tree.path / "b" / "b").read_text() == "agent"


def test_sparse_index(bench, same):
    bench.init("mkdir a b; echo a > a/a; echo b > b/b")
    bench.sh("git sparse-checkout set --cone --sparse-index a; echo x > a/a; mkdir c; echo c > c/outside")
    same()


def test_a_held_index_lock_does_not_matter(bench, same):
    bench.init()
    (bench.repo / ".git" / "index.lock").touch()
    bench.sh("echo x > f1")
    same()


def test_edits_behind_skip_worktree_and_assume_unchanged_are_seen(bench, same):
    bench.init()
    bench.sh("git update-index --skip-worktree f1; git update-index --assume-unchanged f2; echo h >> f1; echo h >> f2")
    same()


def test_an_edit_in_the_second_of_the_index_is_seen(bench, same):
    bench.init()
    for _ in range(20):
        (bench.repo / "f1").write_bytes(b"aaaa")
        bench.sh("git add f1")
        stamp = (bench.repo / "f1").stat().st_mtime_ns
        (bench.repo / "f1").write_bytes(b"bbbb")
        os.utime(bench.repo / "f1", ns=(stamp, stamp))
        if int(time.time()) == stamp // 10**9:
            break
    while int(time.time()) <= stamp // 10**9:
        time.sleep(0.05)
    same()


def test_intent_to_add_split_index_and_fsmonitor(bench, same):
    bench.init()
    bench.sh("echo i > i; git add -N i; git update-index --split-index; echo x > f1; echo n > n; git add n")
    bench.sh("git config core.untrackedCache true; git status; git update-index --fsmonitor", check=False)
    assert list((bench.repo / ".git").glob("sharedindex.*"))
    store, _, _ = same()
    assert store.git_output("ls-files", index=store.base_index).split() == [b"f1", b"f2", b"f3", b"i", b"n"]


def test_a_damaged_index_is_rebuilt(bench, same):
    bench.init()
    (bench.repo / ".git" / "index").write_bytes(os.urandom(40))
    bench.sh("echo x > f1; echo n > n")
    _, base, _ = same()
    assert "damaged" in base.notes[0]


def test_symlinks(bench, same):
    bench.init("ln -s f1 inside; ln -s /etc outside; mkdir d; echo x > d/x; ln -s d dir")
    bench.sh("rm f2; ln -s /nowhere f2; rm -r d; ln -s . d")
    same()


@pytest.mark.parametrize("settings", ["", "core.autocrlf true", "core.eol crlf"])
def test_line_endings_keywords_and_encodings_are_the_bytes_that_the_user_sees(bench, same, settings):
    bench.sh(
        "git init -q -b main; printf 'crlf\\r\\nlf\\n' > mixed.txt; printf 'a\\r\\nb\\r\\n' > dos.bat; printf 'a\\n' > unix"
    )
    (bench.repo / "wide.txt").write_bytes("wide\n".encode("utf-16"))
    (bench.repo / "ident.c").write_bytes(b"/* $Id$ */\n")
    if settings:
        bench.sh(f"git config {settings}")
    bench.sh(
        "printf '* text=auto\\n*.bat eol=crlf\\nwide.txt working-tree-encoding=UTF-16\\n*.c ident\\n' > .gitattributes;"
        # Old files: git then believes its index, and so must not be believed about sizes.
        "touch -d 2001-01-01 *; git add -A 2>/dev/null; git commit -qm x; rm ident.c; git checkout ident.c"
    )
    assert (bench.repo / "ident.c").read_bytes() != b"/* $Id$ */\n"
    _, _, _tree = same()
    bench.sh("printf 'x\\r\\ny\\n' >> dos.bat; printf 'new\\r\\n' > new.txt")
    same()


def test_names_that_are_not_utf8_and_names_with_newlines(bench, same):
    bench.init()
    for name in (
        b"\xff\xfe",
        b"new\nline",
        b"-rf",
        b'"quoted"',
        b"tab\t",
        b"back\\slash",
        b"*glob[1]",
        b":(top)x",
        "ünï".encode(),
    ):
        Path(os.fsdecode(os.fsencode(bench.repo) + b"/" + name)).write_bytes(name)
    bench.sh("git add -A; git commit -qm names")
    for name in (b"\xff\xfe", b"new\nline", b"untracked\xfe\n"):
        Path(os.fsdecode(os.fsencode(bench.repo) + b"/" + name)).write_bytes(b"changed")
    same()


def test_case_collisions(bench, same):
    bench.init("echo a > README; echo b > readme; mkdir A a; echo x > A/x; echo y > a/y")
    same()
    assert collisions([b"README", b"readme", b"A/x", b"a/y", b"b", "é".encode(), "e\u0301".encode()]) == [
        [b"A", b"a"],
        [b"README", b"readme"],
        ["e\u0301".encode(), "é".encode()],
    ]


def test_untracked_files_above_the_limits_and_secrets_are_left_out_and_named(bench, same):
    bench.init()
    bench.sh(
        "head -c 2000 /dev/zero > big; head -c 900 /dev/zero > a1; head -c 900 /dev/zero > a2; echo k > .env;"
        "echo k > .env.example; mkdir d; echo k > d/id_rsa; echo k > server.pem"
    )
    limits = BaseLimits(untracked_file_bytes=1000, untracked_total_bytes=1000)
    _, base, _ = same(without={b"big", b"a2", b".env", b"d/id_rsa", b"server.pem"}, limits=limits)
    assert base.left_out == [".env", "a2", "big", "d/id_rsa", "server.pem"]
    error = refused(bench, limits=BaseLimits(total_files=3))
    assert error.kind is ErrorKind.ISOLATION_UNAVAILABLE


def test_pipes_and_sockets_are_passed_over(bench, same):
    bench.init()
    os.mkfifo(bench.repo / "pipe")
    (bench.repo / "f1").unlink()
    os.mkfifo(bench.repo / "f1")
    os.chdir(bench.repo)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("sock")
        _, base, _ = same()
    os.chdir("/")
    assert base.files == 2


def test_an_embedded_repository_is_left_out_and_reported(bench, same):
    bench.init()
    bench.sh(
        "git init -q inner; echo k > inner/k; git init -q other; cd other; echo k > k; git add k; git commit -qm k"
    )
    _, base, _ = same(without={b"inner/k", b"other/k"}, buffers={"inner/k": b"unsaved"})
    assert any("inner, other" in note for note in base.notes)
    assert "inner/k" in base.left_out


def test_bare(bench):
    bench.sh("git init -q --bare bare")
    assert bench.locate(bench.repo / "bare").bare
    error = refused(bench, path=bench.repo / "bare")
    assert error.kind is ErrorKind.ISOLATION_UNAVAILABLE
    assert "bare" in error.message


def test_mid_merge(bench, same, fingerprint):
    bench.init()
    bench.sh("git checkout -qb o; echo o > f1; git commit -qam o; git checkout -q main; echo m > f1; git commit -qam m")
    bench.sh("git merge -q o", check=False)
    before = fingerprint(bench.repo / ".git")
    error = refused(bench)
    assert error.kind is ErrorKind.ISOLATION_UNAVAILABLE
    assert "f1" in error.message
    assert fingerprint(bench.repo / ".git") == before
    assert bench.locate().merging
    bench.sh("echo resolved > f1; git add f1")
    _, base, _ = same()
    assert any("middle of a merge" in note for note in base.notes)


def test_a_partial_clone_whose_promisor_is_gone(bench, same):
    bench.init("mkdir d; echo d > d/d")
    bench.sh("git config uploadpack.allowFilter true")
    partial = bench.root / "partial"
    bench.sh(f"git clone -q --no-checkout --filter=blob:none file://{bench.repo} {partial}")
    bench.sh(f"git remote set-url origin file://{bench.root}/nowhere", partial)
    assert bench.locate(partial).partial
    for kind in ("current", "head"):
        bench.sh("git read-tree HEAD", partial)
        error = refused(bench, path=partial, kind=kind) if kind == "head" else None
        if error:
            assert error.kind is ErrorKind.ISOLATION_UNAVAILABLE
            assert "partial" in error.message
    complete = bench.root / "complete"
    bench.sh(f"git clone -q --filter=blob:none file://{bench.repo} {complete}; echo x > {complete}/f1")
    bench.sh(f"git remote set-url origin file://{bench.root}/nowhere", complete)
    same(path=complete)


def test_a_repository_of_another_user_is_refused(bench):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    bench.init()
    bench.sh("chown -R 65534 .")
    error = refused(bench)
    assert error.kind is ErrorKind.PERMISSION_DENIED
    assert "belongs to another user" in error.message
    bench.sh(str(error.hint).partition("run: ")[2])
    bench.tree()


def test_sha256(bench, same):
    bench.init(options="--object-format=sha256")
    bench.sh("echo x > f1; echo n > n")
    _, base, _ = same()
    assert len(base.commit) == 64


def test_the_users_own_excludes_and_the_repositorys_hold(bench, same):
    bench.init("echo '!keep.swp' > .gitignore")
    bench.sh(
        "mkdir -p $XDG_CONFIG_HOME/git; echo '*.swp' > $XDG_CONFIG_HOME/git/ignore; echo local >> .git/info/exclude"
    )
    bench.sh("echo x > x.swp; echo x > keep.swp; echo x > local")
    _, base, tree = same(without={b"x.swp", b"local"})
    assert base.left_out == []
    (tree.path / "y.swp").write_text("x")
    assert tree.snapshot("m", base.commit).commit == base.commit


def test_mode_bits_are_not_trusted_where_the_user_says_so(bench):
    bench.init("chmod +x f1")
    bench.sh("git config core.filemode false; chmod -x f1; echo x > f1; chmod +x f2")
    store, base, _ = bench.tree()
    assert store.git_output("ls-tree", base.commit).split(b"\n")[0].startswith(b"100755")
    assert store.git_output("ls-tree", base.commit).split(b"\n")[1].startswith(b"100644")


def test_pin_writes_one_reference_without_hooks_and_unpin_takes_it_away(bench, fingerprint, executed):
    bench.init()
    hook = bench.repo / ".git" / "hooks" / "reference-transaction"
    hook.write_text((executed.parent / "payload.sh").read_text())
    hook.chmod(0o755)
    repository = bench.locate()
    before = fingerprint(bench.repo / ".git")
    pin(repository, "20261121-004512-k3f9q", repository.head_commit)
    assert bench.sh("git for-each-ref refs/understudy --format='%(refname) %(objectname)'").split() == [
        "refs/understudy/base=20261121-004512-k3f9q",
        repository.head_commit,
    ]
    assert fingerprint(bench.repo / ".git") == before
    unpin(repository, "20261121-004512-k3f9q")
    unpin(repository, "20261121-004512-k3f9q")
    assert bench.sh("git for-each-ref refs/understudy") == ""
    assert not executed.exists()
    for name in ("../../heads/main", "-d", "a..b", "a.lock", "a/b", "", "a."):
        with pytest.raises(UnderstudyError):
            pin(repository, name, repository.head_commit)


def test_pins_of_earlier_versions_are_moved_all_at_once_and_removed(bench):
    bench.init()
    repository = bench.locate()
    bench.sh("git commit -q --allow-empty -m second")
    for name, commit in (("old-1", "HEAD"), ("old-2", "HEAD~1"), ("export-0123456789ab", "HEAD"), ("a/b", "HEAD")):
        bench.sh(f"git update-ref refs/understudy/{name} {commit}")
    bench.sh("git pack-refs --all")
    pin(repository, "new", repository.head_commit)
    assert bench.sh("git for-each-ref refs/understudy --format='%(refname:lstrip=2) %(objectname)'").splitlines() == [
        f"{name} {bench.sh(f'git rev-parse {commit}').strip()}"
        for name, commit in (
            ("a/b", "HEAD"),
            ("base=new", "HEAD~1"),
            ("base=old-1", "HEAD"),
            ("base=old-2", "HEAD~1"),
            ("export-0123456789ab", "HEAD"),
        )
    ]
    bench.sh("git update-ref refs/understudy/old-1 HEAD")  # of a process of the earlier version
    unpin(repository, "old-1")
    assert "old-1" not in bench.sh("git for-each-ref refs/understudy")


def test_no_configured_branch_is_hidden_by_a_pin(bench):
    bench.init()
    pin(bench.locate(), "20260101-000000-abcde", bench.locate().head_commit)
    hiding = bench.sh("git for-each-ref refs/understudy --format='%(refname:lstrip=1)'").strip()
    assert delegators.why_invalid_branch(hiding.replace("20260101-000000-abcde", "{id}")) is not None


def test_the_users_garbage_collection_cannot_break_a_base(bench, files):
    bench.init()
    bench.sh(
        "echo staged > f1; git add f1; mkdir d; echo sub > d/x; git add d; git stash -q; git stash apply -q --index"
    )
    store, base, tree = bench.tree()
    seen = files(tree.path)
    pin(bench.locate(), "x", bench.locate().head_commit)
    bench.sh(
        "git stash drop -q; git checkout -q --orphan gone; git rm -rfq .; git commit -q --allow-empty -m x; git branch -D main;"
        "git reflog expire --expire=now --all; git gc -q --prune=now"
    )
    again = create_worktree(ObjectStore.open(store.path), base, bench.state / "again")
    assert files(again.path) == seen
    assert store.git_output("fsck", "--full", "--strict", base.commit) is not None


def test_discovery_stops_at_home_and_validates(bench, own_home):
    bench.sh("git init -q .", own_home)
    folder = own_home / "notes"
    folder.mkdir()
    assert not locate(folder).is_repository
    assert locate(own_home).is_repository
    (folder / ".git").mkdir()
    assert not locate(folder).is_repository
    (folder / ".git").rmdir()
    (folder / ".git").write_text("gitdir: ../../../nowhere\n")
    assert not locate(folder / "not" / "there.py").is_repository
