"""What leaves for the user's history is what git itself would have stored, and nothing else of theirs changes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from understudy.git.base import capture
from understudy.git.diff import file_diffs
from understudy.git.merge import export
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import unquote


@pytest.fixture
def person(monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        for part in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{role}_{part}")
    subprocess.run(["git", "config", "--global", "user.name", "A. Person"], check=True)
    subprocess.run(["git", "config", "--global", "user.email", "person@example.invalid"], check=True)


def worked(bench, command: str, **keywords):
    store, base, tree = bench.tree(**keywords)
    bench.sh(command, tree.path)
    return store, base, tree.snapshot("work", base.commit).commit


def out(bench, store, base, head, **keywords):
    repository = bench.locate()
    keywords.setdefault("parent", repository.head_commit)
    keywords.setdefault("message", "Add things\n\nAll of them.")
    return export.export(store, repository, base.commit, head, **keywords)


def test_a_branch_holds_the_result_on_the_commit_it_started_from(bench, person, fingerprint, files):
    bench.init()
    store, base, head = worked(bench, "echo 2 >> f1; rm f3; mkdir d; echo n > d/new; chmod +x f2; ln -s f1 link")
    had, before = fingerprint(bench.repo / ".git"), files(bench.repo)
    done = out(bench, store, base, head, branch="agent/work")
    assert done.reference == "refs/heads/agent/work"
    assert done.notes == []
    assert bench.sh("git rev-parse agent/work").strip() == done.commit
    assert bench.sh("git log -1 --format='%an <%ae>|%s|%b|%P' agent/work").strip() == (
        "A. Person <person@example.invalid>|Add things|All of them.\n|" + bench.sh("git rev-parse main").strip()
    )
    assert bench.sh("git ls-tree -r agent/work") == bench.sh(f"git --git-dir={store.path} ls-tree -r {head}")
    bench.sh("git fsck --strict --no-dangling")
    now = fingerprint(bench.repo / ".git")
    assert {name for name in had.keys() | now.keys() if had.get(name) != now.get(name) and "objects" not in name} == {
        "refs/heads/agent",
        "refs/heads/agent/work",
    }
    assert files(bench.repo) == before


def test_a_commit_is_held_without_a_branch(bench, person):
    bench.init()
    store, base, head = worked(bench, "echo 2 >> f1")
    done = out(bench, store, base, head)
    assert done.reference == f"refs/understudy/export-{done.commit[:12]}"
    bench.sh("git gc -q --prune=now")
    assert bench.sh(f"git show -s --format=%s {done.commit}").strip() == "Add things"
    assert out(bench, store, base, head).reference


@pytest.mark.parametrize("pinned_by", ["this version", "an earlier version", "an earlier version, packed"])
def test_a_branch_that_is_named_like_its_delegation_is_merged_by_its_short_name(bench, person, pinned_by):
    bench.init()
    repository, identifier = bench.locate(), "20261127-115302-immip"
    name = f"understudy/{identifier}"
    if pinned_by == "this version":
        capture.pin(repository, identifier, repository.head_commit)
    else:
        bench.sh(f"git update-ref refs/{name} HEAD; git update-ref refs/understudy/export-0123456789ab HEAD")
    if pinned_by.endswith("packed"):
        bench.sh("git pack-refs --all")
    store, base, head = worked(bench, "echo 2 >> f1; rm f3; echo n > new")
    done = out(bench, store, base, head, branch=name)
    assert bench.sh(f"git log -1 --format=%H {name} 2>&1").strip() == done.commit  # no "refname is ambiguous"
    assert "new" in bench.sh(f"git diff --stat main...{name} 2>&1")
    bench.sh("git checkout -q .")
    assert "Fast-forward" in bench.sh(f"git merge {name} 2>&1")
    assert (bench.repo / "new").read_text() == "n\n"
    kept = bench.sh("git for-each-ref --format='%(refname) %(objectname)' refs/understudy").splitlines()
    assert kept[0] == f"refs/understudy/base={identifier} {repository.head_commit}"
    assert kept[1:] == (
        [] if pinned_by == "this version" else [f"refs/understudy/export-0123456789ab {repository.head_commit}"]
    )


@pytest.mark.parametrize("hiding", ["refs/tags/b", "refs/b", "refs/understudy/base=x"])
def test_a_branch_that_another_reference_hides_is_not_made(bench, person, hiding):
    bench.init()
    store, base, head = worked(bench, "echo 2 >> f1")
    bench.sh(f"git update-ref {hiding} HEAD")
    with pytest.raises(UnderstudyError, match=f"git would find {hiding} instead") as refused:
        out(bench, store, base, head, branch=hiding.removeprefix("refs/").removeprefix("tags/"))
    assert refused.value.kind is ErrorKind.ALREADY_EXISTS
    assert bench.sh("git branch --list --format='%(refname)'") == "refs/heads/main\n"


@pytest.mark.parametrize("where", ["another disk", "a folder with a colon"])
def test_the_store_may_be_anywhere(bench, person, tmp_path, where):
    bench.init()
    parent = tmp_path
    if where == "another disk":
        disks = [Path(each) for each in ("/dev/shm", "/tmp") if Path(each).stat().st_dev != tmp_path.stat().st_dev]
        if not disks:
            pytest.skip("/dev/shm and /tmp are on the disk of the repository")
        parent = disks[0]
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        bench.state = Path(folder) / 'a:"b'
        bench.state.mkdir()
        store, base, head = worked(bench, "echo 2 >> f1; echo n > new")
        out(bench, store, base, head, branch="b")
    bench.sh("git fsck --strict --no-dangling")
    assert bench.sh("git show b:new") == "n\n"


def test_only_the_hunks_asked_for_and_only_the_result_on_a_dirty_file(bench, person):
    bench.init("seq 30 > n")
    bench.sh("sed -i 's/^2$/mine/' n; echo mine > untracked; sed -i '$d' f1; sed -i 's/l1/mine/' f2")
    store, base, head = worked(bench, "sed -i 's/^15$/theirs/; s/^25$/not this/' n; sed -i 's/mine/theirs/' f2")
    hunks = {unquote(each.path): [hunk.id for hunk in each.hunks] for each in file_diffs(store, base.commit, head)}
    done = out(bench, store, base, head, branch="b", selection={b"n": {hunks[b"n"][0]}, b"f2": None})
    assert "2 files changed, 2 insertions(+), 2 deletions(-)" in bench.sh("git diff --stat=80 main b | tail -1")
    assert bench.sh("git show b:n").split()[14] == "theirs"
    assert bench.sh("git show b:f2").split()[0] == "theirs"
    assert any("f2" in note for note in done.notes)


@pytest.mark.parametrize(
    "rules", ["* text=auto\n", "* text eol=crlf\n", "*.txt working-tree-encoding=UTF-16LE\n", "* text=auto\nf* ident\n"]
)
@pytest.mark.parametrize(
    "autocrlf", ["true", *(pytest.param(value, marks=pytest.mark.heavy) for value in ("false", "input"))]
)
def test_contents_are_stored_as_git_would_store_them(bench, person, rules, autocrlf):
    (bench.repo / "..").resolve()
    bench.init(f"git config core.autocrlf {autocrlf}; printf '{rules}' > .gitattributes; printf 'a\\nb\\n' > in.txt")
    if "UTF-16" in rules:
        (bench.repo / "in.txt").write_bytes("ä\nb\n".encode("utf-16-le"))
        bench.sh("git add -A; git commit -qm encoded")
    bench.sh("rm -f f1 f2 in.txt; git checkout -q .")
    extra = r"printf '$Id: 123 $\r\nx\r\n' > f2; printf 'new\r\n' > f9; printf '\0\r\n' > binary"
    store, base, head = worked(bench, extra)
    out(bench, store, base, head, branch="b")
    bench.sh(extra)
    bench.sh("git add -A")
    assert bench.sh("git ls-tree -r b") == bench.sh("git ls-tree -r $(git write-tree)")


def test_files_with_a_filter_are_left_out_and_the_filter_never_runs(bench, person, executed, tmp_path):
    payload = tmp_path / "payload.sh"
    bench.init("echo '*.big filter=lfs' > .gitattributes")
    bench.sh(f"git config filter.lfs.clean {payload}; git config filter.lfs.smudge {payload}")
    bench.sh(f"git config core.fsmonitor {payload}; mkdir -p .git/hooks; cp {payload} .git/hooks/reference-transaction")
    store, base, head = worked(bench, "echo x > a.big; echo y > plain")
    done = out(bench, store, base, head, branch="b")
    assert "a.big" in done.notes[0]
    assert "plain" in bench.sh("git -c core.fsmonitor=false ls-tree --name-only b").split()
    store, base, head = worked(bench, "echo x > a.big")
    with pytest.raises(UnderstudyError) as caught:
        out(bench, store, base, head, branch="c")
    assert caught.value.kind is ErrorKind.INPUT_EMPTY
    assert not executed.exists()


def test_invalid_exports_are_refused(bench, person):
    bench.init()
    store, base, head = worked(bench, "echo 2 >> f1")
    for branch, kind in (
        ("main", ErrorKind.ALREADY_EXISTS),
        ("-x", ErrorKind.INVALID_PARAMS),
        ("a..b", ErrorKind.INVALID_PARAMS),
        ("HEAD", ErrorKind.INVALID_PARAMS),
        ("--upload-pack=x", ErrorKind.INVALID_PARAMS),
    ):
        with pytest.raises(UnderstudyError) as caught:
            out(bench, store, base, head, branch=branch)
        assert caught.value.kind is kind
    bench.sh("git config --global --unset user.email")
    with pytest.raises(UnderstudyError) as caught:
        out(bench, store, base, head, branch="b")
    assert caught.value.kind is ErrorKind.CONFIG_INVALID


def test_before_the_first_commit_a_branch_has_no_parent(bench, person):
    bench.sh("git init -q -b main; echo mine > f1")
    store, base, head = worked(bench, "echo new > f2")
    out(bench, store, base, head, branch="b", parent=None)
    assert bench.sh("git log --format=%P b").strip() == ""
    assert "f2" in bench.sh("git ls-tree --name-only b")


@pytest.mark.parametrize("some", [False, True])
def test_a_patch_applies(bench, files, some):
    bench.init("printf 'a\\r\\nb\\r\\n' > crlf; printf '\\0\\1' > binary; seq 40 > n; mkdir old; seq 20 > old/name")
    bench.sh("echo dirty >> f1")
    store, base, head = worked(
        bench,
        "printf 'a\\r\\nc\\r\\n' > crlf; printf '\\0\\2' > binary; sed -i 's/^5$/x/; s/^30$/y/' n; git mv old/name new;"
        " rm f2; chmod +x f3; ln -s n link; printf x > \"$(printf 'odd\\n\\377')\"; echo more >> f1",
    )
    selection = None
    if some:
        hunks = {unquote(each.path): [hunk.id for hunk in each.hunks] for each in file_diffs(store, base.commit, head)}
        selection = {b"n": {hunks[b"n"][1]}, b"binary": None}
    patch = export.patch(store, base.commit, head, selection)
    (bench.root / "patch").write_bytes(patch)
    bench.sh(f"git apply {bench.root / 'patch'}")
    found = files(bench.repo)
    if some:
        assert found[b"n"][1].split()[4] == b"5"
        assert found[b"n"][1].split()[29] == b"y"
        assert found[b"binary"][1] == b"\0\2"
        assert b"f2" in found
    else:
        store.git_output("worktree", "prune")
        place = Path(bench.state / "expected")
        place.mkdir()
        store.git_output("read-tree", head, index=bench.state / "index")
        store.git_output("checkout-index", "-a", work_tree=place, index=bench.state / "index")
        assert found == files(place)
