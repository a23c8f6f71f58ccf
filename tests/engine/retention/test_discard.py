"""Trees go when their time has come and not before, come back as they were, and a kill in between loses nothing."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from killed_workers import processes_of
from project_python import project_python
from wait_until import until

from understudy.engine.queueing import launcher
from understudy.engine.retention import discard, retained_files
from understudy.engine.worktrees import worktree_record
from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.git.worktree import rescue
from understudy.journal import delegation_folder, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError

LINES = "".join(f"line {number}\n" for number in range(1, 31))
RESULT = LINES.replace("line 5\n", "five\n").replace("line 20\n", "twenty\n")
MONTH = 30.0
PLENTY = 10**12
NOW = 1e-9
"""Days after which everything is past its time."""


def heavy(*values):
    """Mark some of a test's parameters as heavy: they are more of the same."""
    return [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.heavy) for each in values]


TIDY = """
import sys
from understudy.engine.retention import discard
from understudy.journal import delegation_folder
print(*discard.expire(delegation_folder.state_root(), keep_days=float(sys.argv[1]), keep_bytes=int(sys.argv[2])))
"""


@pytest.fixture
def worked(project, made_once):
    """A project with a finished delegation of two hunks and a new file; its agent left more in the tree."""
    project.id = made_once("worked", lambda: number_lines(project))
    return project


def number_lines(project):
    project.write("text.txt", LINES)
    project.write("only.txt", "in the base alone\n")
    project.commit()
    project.program(
        "editor",
        f"""
        import subprocess
        if "asked for now" not in sys.stdin.read():
            pathlib.Path("text.txt").write_text({RESULT!r})
            pathlib.Path("new.txt").write_text("new\\n")
            pathlib.Path("ignored.txt").write_text("ignored\\n")
            subprocess.run(["git", "add", "new.txt"], check=True)
        say(type="result", ok=True)
        """,
    )
    return another(project)


def another(project) -> str:
    done = project.run("implement", "text.txt", task="Number them.", delegator="editor")
    assert done.review.pending == 3, project.events(done.id)
    # The worker that wrote the end still tidies; what a test does to the trees must not meet it.
    assert not processes_of(str(delegation_folder.state_root()))
    return done.id


def tidy(days: float = MONTH, size: int = PLENTY) -> list[str]:
    return discard.expire(delegation_folder.state_root(), keep_days=days, keep_bytes=size)


def killed_tidy(fault: str, days: float = MONTH, size: int = PLENTY) -> bool:
    """Tidy in a process of its own that dies at a point; return whether it did."""
    done = subprocess.run(
        [sys.executable, "-c", TIDY, str(days), str(size)],
        env=os.environ | {FAILPOINT_VARIABLE: fault},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode != 0


def tree(project, identifier: str | None = None) -> Path:
    found = project.call("delegations/get", id=identifier or project.id).worktree
    assert found is not None
    return Path(found)


def trash() -> list[str]:
    folder = delegation_folder.state_root() / "trash"
    return os.listdir(folder) if folder.exists() else []


def trees(project) -> dict[str, str]:
    return {one.id: str(one.state) for one in project.call("worktrees/list").worktrees}


def pins(project) -> set[str]:
    listing = project.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/understudy")
    return {name.removeprefix("base=") for name in listing.split()}


def as_earlier_versions(project, identifier: str) -> str:
    """Move a pin to where earlier versions wrote it; return its name there."""
    name = f"refs/understudy/{identifier}"
    project.git("update-ref", name, f"refs/understudy/base={identifier}")
    project.git("update-ref", "-d", f"refs/understudy/base={identifier}")
    return name


def accept(project, identifier: str | None = None) -> str | None:
    decisions = [{"decision": "accept"}]
    return project.call("delegations/decide", id=identifier or project.id, decisions=decisions).undo_token


def reject(project, identifier: str) -> None:
    project.call("delegations/decide", id=identifier, decisions=[{"decision": "reject"}])


def discard_worktree(project, identifier: str | None = None) -> str:
    return project.call("delegations/discard", id=identifier or project.id).rescue_ref


def restore(project, reference: str) -> Path:
    return Path(project.call("worktrees/restore", rescueRef=reference).path)


def everything(root: Path) -> dict[str, tuple]:
    """Every path below with kind, permissions, time and contents, `.git` included."""
    found = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            full = os.path.join(folder, name)
            status = os.lstat(full)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(full, root)] = ("link", os.readlink(full))
            elif stat.S_ISDIR(status.st_mode):
                found[os.path.relpath(full, root)] = ("folder", mode)
            else:
                content = Path(full).read_bytes()
                found[os.path.relpath(full, root)] = ("file", mode, status.st_mtime_ns, content)
    return found


def start_over(project) -> None:
    """Permanently remove all history that a delegation started from, as a user could."""
    project.git("checkout", "-q", "--orphan", "fresh")
    project.git("rm", "-rqf", "--cached", ".")
    for path in ("text.txt", "only.txt"):
        (project.top / path).unlink()
    project.write("other.txt", "another project now\n")
    project.git("add", "other.txt", "calc.py")
    project.git("commit", "-qm", "restart")
    project.git("branch", "-D", "main")
    collect(project)


def collect(project) -> None:
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")


# -- git gc in the user's repository -------------------------------------------------------------------------------


def test_the_id_of_a_delegation_restores_what_was_discarded(worked) -> None:
    tree = Path(worked.call("delegations/get", id=worked.id).worktree)
    discard_worktree(worked)
    assert not tree.exists()
    with pytest.raises(UnderstudyError, match="No removed worktree is named"):
        restore(worked, worked.id[:-1])
    for text in ("first", "second"):  # each time, the newest one
        assert restore(worked, worked.id) == tree
        (tree / "text.txt").write_text(text)
        discard_worktree(worked)
    restore(worked, worked.id)
    assert (tree / "text.txt").read_text() == "second"
    with pytest.raises(UnderstudyError, match=f"The worktree of {worked.id} is not removed: it is at {tree}."):
        restore(worked, worked.id)


def test_the_worktree_of_a_repository_that_is_gone_is_not_removed(worked):
    tree = Path(worked.call("delegations/get", id=worked.id).worktree)
    (worked.top / ".git").rename(worked.top / "elsewhere")
    with pytest.raises(UnderstudyError, match=f"no longer exists at {worked.top}/.git/objects") as refused:
        discard_worktree(worked)
    assert str(tree.parent) in (refused.value.hint or "")
    assert (tree / "new.txt").exists()
    (worked.top / "elsewhere").rename(worked.top / ".git")
    discard_worktree(worked)
    assert not tree.exists()


def test_what_was_restored_survives_a_gc(worked):
    reference = discard_worktree(worked)
    assert not pins(worked)
    restore(worked, reference)
    assert pins(worked) == {worked.id}
    start_over(worked)
    files = worked.call("delegations/diff", id=worked.id).files
    assert sum(len(file.hunks) for file in files) == 3
    shown = worked.call("delegations/file", id=worked.id, path="text.txt", side="base")
    assert shown.text == LINES
    worked.git("cat-file", "-e", f"refs/understudy/base={worked.id}:only.txt")
    # The tree's own git reads what it borrows, too.
    done = subprocess.run(["git", "log", "-p"], cwd=tree(worked), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "in the base alone" in done.stdout


def test_the_pin_of_an_earlier_version_goes_with_its_worktree_which_is_restored(worked):
    earlier = as_earlier_versions(worked, worked.id)
    before = everything(tree(worked))
    start_over(worked)
    assert earlier in worked.git("for-each-ref", "--format=%(refname)")
    reference = discard_worktree(worked)
    assert not pins(worked)
    restore(worked, reference)
    assert everything(tree(worked)) == before
    worked.git("cat-file", "-e", f"refs/understudy/base={worked.id}:only.txt")


def test_a_rescued_worktree_is_restored_after_the_history_is_gone(worked):
    place = tree(worked)
    before = everything(place)
    base = worked.git("rev-parse", "HEAD").strip()
    reference = discard_worktree(worked)
    assert not place.exists()
    start_over(worked)
    assert "missing" in worked.git("cat-file", "--batch-check=%(objectname)", "--batch-all-objects", check=False) or (
        base not in worked.git("cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
    )
    assert restore(worked, reference) == place
    assert everything(place) == before
    assert worked.call("delegations/file", id=worked.id, path="text.txt", side="base").text == LINES
    worked.write("text.txt", LINES)
    token = accept(worked)
    assert (worked.top / "text.txt").read_text() == RESULT
    worked.call("delegations/undo", undoToken=token)
    assert (worked.top / "text.txt").read_text() == LINES
    again = discard_worktree(worked)
    assert again != reference
    collect(worked)
    restore(worked, again)
    assert everything(place) == before


@pytest.mark.heavy
def test_the_whole_chain_comes_back(worked):
    """An accept of the first result can be undone after both worktrees were removed, collected and restored."""
    [first, *_] = next(
        file.hunks for file in worked.call("delegations/diff", id=worked.id).files if file.path == "text.txt"
    )
    token = worked.call(
        "delegations/decide",
        id=worked.id,
        decisions=[{"path": "text.txt", "hunk": first.id, "decision": "accept"}],
    ).undo_token
    worked.commit()
    for name in ("more.txt", "still.txt"):
        worked.write(name, name)
        worked.commit()
    child = worked.finish(worked.call("delegations/reply", id=worked.id, text="Go on.").id).id
    assert not processes_of(str(delegation_folder.state_root()))
    reference = discard_worktree(worked, child)
    assert not pins(worked)
    now = (worked.top / "text.txt").read_text()
    start_over(worked)
    worked.write("text.txt", now)
    restore(worked, reference)
    assert sum(len(file.hunks) for file in worked.call("delegations/diff", id=worked.id).files) == 3
    assert worked.call("delegations/file", id=worked.id, path="text.txt", side="base").text == LINES
    worked.call("delegations/undo", undoToken=token)
    assert (worked.top / "text.txt").read_text() == LINES
    accept(worked, child)


def test_a_worktree_whose_borrowed_objects_are_lost_is_not_removed(worked):
    """A rescue ref must always be able to restore the worktree."""
    place = tree(worked)
    before = everything(place)
    worked.git("update-ref", "-d", f"refs/understudy/base={worked.id}")
    start_over(worked)
    for attempt in (lambda: discard_worktree(worked), lambda: worked.call("worktrees/remove", id=worked.id)):
        with pytest.raises(UnderstudyError) as caught:
            attempt()
        assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
        assert "git fsck" in (caught.value.hint or "")
    assert rescue.list_rescues(delegation_folder.state_root()) == []
    assert everything(place) == before
    assert trees(worked) == {worked.id: "pending"}


# -- retention -----------------------------------------------------------------------------------------------------


def test_by_age_only_decided_work_expires(worked):
    decided, pending = worked.id, another(worked)
    reject(worked, decided)
    assert tidy(MONTH) == []
    before = everything(tree(worked, decided))
    place = tree(worked, decided)
    [reference] = tidy(NOW)
    assert trees(worked) == {pending: "pending"}
    assert not place.exists()
    assert not trash()
    assert worked.call("delegations/get", id=decided).worktree is None
    assert tidy(NOW) == []
    assert restore(worked, reference) == place
    assert everything(place) == before


@pytest.mark.heavy
def test_by_size_the_oldest_decided_go_until_the_rest_fits(worked):
    pending = worked.id
    first, second = another(worked), another(worked)
    for identifier in (second, first):  # the last word makes the age, not the beginning
        reject(worked, identifier)
    one = retained_files.size_of(tree(worked, pending).parent)
    assert tidy(MONTH, PLENTY) == []
    assert len(tidy(MONTH, int(2.5 * one))) == 1
    assert trees(worked) == {pending: "pending", first: "decided"}
    assert len(tidy(MONTH, 0)) == 1
    assert trees(worked) == {pending: "pending"}, "pending work is never removed to free space"


def test_one_whose_decisions_are_undone_at_the_last_moment_stays(worked, monkeypatch):
    token = accept(worked)

    def undo(_) -> bool:
        worked.call("delegations/undo", undoToken=token)
        return False

    monkeypatch.setattr(discard, "_is_in_use", undo)
    assert tidy(NOW) == []
    assert trees(worked) == {worked.id: "pending"}
    assert tree(worked).is_dir()
    assert not retained_files.rescues(delegation_folder.state_root())


def test_one_whose_delegation_is_lost_at_the_last_moment_stays(worked, monkeypatch):
    accept(worked)
    place = tree(worked)

    def lose(_) -> bool:
        shutil.rmtree(delegation_folder.open_folder(worked.id).path)
        return False

    monkeypatch.setattr(discard, "_is_in_use", lose)
    assert tidy(NOW) == []
    assert set(trees(worked).values()) == {"orphaned"}
    assert place.is_dir()


@pytest.mark.heavy
def test_the_next_worker_keeps_to_the_configuration(worked):
    reject(worked, worked.id)
    place = tree(worked)
    worked.settings(f'[environment]\npython = "{project_python()}"\n\n[worktrees]\nkeep_days = {NOW:.12f}\n')
    last_look = delegation_folder.state_root() / "tidied"
    os.utime(last_look)
    earlier = another(worked)
    assert place.exists(), "another worker has just looked"
    os.utime(last_look, (0, 0))
    later = another(worked)
    assert not place.exists()
    assert trees(worked) == {earlier: "pending", later: "pending"}
    worked.settings(f'[environment]\npython = "{project_python()}"\n\n[worktrees]\nkeep_bytes = 0\n')
    reject(worked, later)
    os.utime(last_look, (0, 0))
    last = another(worked)
    assert trees(worked) == {earlier: "pending", last: "pending"}


def test_a_result_that_was_not_collected_does_not_expire(worked):
    """A killed worker leaves partial work that the user has not seen."""
    worked.program("dies", "pathlib.Path('half.txt').write_text('half')\nsay(type='text', text='x')\ntime.sleep(60)")
    identifier = worked.start("implement", delegator="dies", task="x")
    found = worked.until(identifier, lambda d: d.state == "running" and d.worktree is not None)
    half = Path(found.worktree) / "half.txt"
    until(lambda: half.exists() and half.read_text() == "half")
    holder = worker_files.read_holder(delegation_folder.open_folder(identifier))
    assert holder is not None
    os.kill(holder.identity.pid, signal.SIGKILL)
    assert worked.finish(identifier).verdict == "interrupted"
    assert tidy(NOW, 0) == []
    assert half.read_text() == "half"
    assert trees(worked)[identifier] == "pending"


def test_a_worktree_in_use_is_not_removed(worked):
    worked.program("hangs", "time.sleep(60)")
    identifier = worked.start("implement", delegator="hangs", task="x")
    worked.until(identifier, lambda d: d.state == "running")
    assert trees(worked)[identifier] == "working"
    assert tidy(NOW, 0) == []
    with pytest.raises(UnderstudyError) as caught:
        worked.call("worktrees/remove", id=identifier)
    assert caught.value.kind is ErrorKind.CONFLICT
    worked.call("delegations/cancel", id=identifier)
    assert not processes_of(str(delegation_folder.state_root()))


def test_a_worktree_whose_worker_is_about_to_exit_can_be_removed(worked):
    """A worker keeps its lock for a moment after the delegation has finished."""
    folder = delegation_folder.open_folder(worked.id)
    lock = worker_files.try_lock(folder)
    assert lock is not None
    assert trees(worked) == {worked.id: "pending"}
    os.close(lock)
    reject(worked, worked.id)
    lock = worker_files.try_lock(folder)
    assert lock is not None
    assert tidy(NOW, 0) == [], "it is still in use"
    threading.Timer(0.3, os.close, [lock]).start()
    worked.call("worktrees/remove", id=worked.id)
    assert trees(worked) == {}


# -- removals that were interrupted, and the trash ----------------------------------------------------------------


def test_the_trash_is_emptied_whatever_is_in_it(worked):
    place = tree(worked)
    deep = place
    for number in range(40):
        deep /= f"folder{number}"
    deep.mkdir(parents=True)
    (deep / "locked").write_text("x")
    (deep / "locked").chmod(0)
    (place / "closed").mkdir()
    (place / "closed" / "in").write_text("x")
    (place / "link").symlink_to(worked.top)
    (place / "closed").chmod(0)
    reject(worked, worked.id)
    assert len(tidy(NOW)) == 1
    assert not trash()
    assert (worked.top / "text.txt").read_text() == LINES


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.heavy)])
def test_an_interrupted_cleanup_is_finished_by_the_next(worked, step):
    place = tree(worked)
    before = everything(place)
    reject(worked, worked.id)
    number, gone = 1, set()
    while killed_tidy(f"*:{number}", NOW):
        tidy(MONTH)
        removed = worktree_record.removed(place.parent)
        gone.add(removed is not None)
        assert not trash()
        if removed is None:
            assert everything(place) == before
            assert trees(worked) == {worked.id: "decided"}
        else:
            assert sorted(os.listdir(place.parent)) == ["owners", "removed"]
            assert trees(worked) == {}
            assert worked.call("delegations/get", id=worked.id).worktree is None
            restore(worked, removed)
        assert everything(place) == before
        assert pins(worked) == {worked.id}
        number += step
    assert gone == {True, False}


@pytest.mark.parametrize("at", ["trashed:1", "tree written:1", *heavy("marked:1", "store written:1", "tree moved:1")])
def test_a_restoration_that_was_killed_is_cleared_away_and_can_be_made_again(worked, at):
    place = tree(worked)
    before = everything(place)
    reference = discard_worktree(worked)
    program = "import sys\nfrom understudy.engine.retention import discard\ndiscard.restore(sys.argv[1])"
    if at in {"marked:1", "trashed:1"}:
        restore(worked, reference)
        program = "import sys\nfrom understudy.engine.retention import discard\ndiscard.remove(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, worked.id if at in {"marked:1", "trashed:1"} else reference],
        env=os.environ | {FAILPOINT_VARIABLE: at},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    tidy(MONTH)
    reference = worktree_record.removed(place.parent)
    assert reference is not None
    assert sorted(os.listdir(place.parent)) == ["owners", "removed"]
    assert restore(worked, reference) == place
    assert everything(place) == before
    accept(worked)
    assert (worked.top / "text.txt").read_text() == RESULT


def test_one_tidies_and_the_others_leave(worked):
    reject(worked, worked.id)
    with retained_files.expiry_lock(delegation_folder.state_root()) as mine:
        assert mine
        assert tidy(NOW) == []
        assert trees(worked) == {worked.id: "expired"} or trees(worked) == {worked.id: "decided"}
    assert len(tidy(NOW)) == 1


# -- trees without a delegation ------------------------------------------------------------------------------------


@pytest.fixture
def orphaned(worked):
    """The delegation's folder was deleted by hand; its tree is still there."""
    worked.place = tree(worked)
    shutil.rmtree(delegation_folder.open_folder(worked.id).path)
    [worked.tree_id] = trees(worked)
    assert trees(worked)[worked.tree_id] == "orphaned"
    return worked


def test_an_orphan_is_removed_only_on_request_and_can_be_restored(orphaned):
    before = everything(orphaned.place)
    assert tidy(NOW, 0) == []
    assert everything(orphaned.place) == before
    reference = orphaned.call("worktrees/remove", id=orphaned.tree_id).rescue_ref
    tidy(MONTH)
    assert not orphaned.place.exists()
    assert trees(orphaned) == {}
    assert restore(orphaned, reference) == orphaned.place
    assert everything(orphaned.place) == before
    assert set(trees(orphaned).values()) == {"orphaned"}


@pytest.mark.parametrize(
    ("verb", "at"), [("restore", "tree written:1"), *heavy(("remove", "marked:1"), ("remove", "trashed:1"))]
)
def test_an_orphan_killed_on_its_way_is_kept(orphaned, verb, at):
    before = everything(orphaned.place)
    name = orphaned.tree_id
    if verb == "restore":
        name = orphaned.call("worktrees/remove", id=name).rescue_ref
    program = f"import sys\nfrom understudy.engine.retention import discard\ndiscard.{verb}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, name], env=os.environ | {FAILPOINT_VARIABLE: at}, check=False)
    assert done.returncode == -signal.SIGKILL
    tidy(MONTH)
    assert sorted(os.listdir(orphaned.place.parent)) == ["owners", "removed"]
    reference = worktree_record.removed(orphaned.place.parent)
    assert reference is not None
    restore(orphaned, reference)
    assert everything(orphaned.place) == before


@pytest.mark.heavy
@pytest.mark.parametrize("at", ["base pinned:1", "worktree path claimed:1"])
def test_a_claimed_path_without_worktree_is_freed(worked, monkeypatch, at):
    """Each worker died before it wrote the base: no worktree, nothing to rescue, and no ref that stays."""
    [root] = worktree_record.roots(delegation_folder.state_root())
    with monkeypatch.context() as patch:
        patch.setenv(FAILPOINT_VARIABLE, at)
        identifier = worked.start("implement", delegator="editor", task="x")
        assert worked.finish(identifier).verdict == "interrupted"
        assert not processes_of(str(delegation_folder.state_root()))
    root.with_name("7").mkdir(mode=0o700)
    assert len(list(worktree_record.roots(delegation_folder.state_root()))) >= 1 + launcher.MOST_LAUNCHES + 1
    tidy(MONTH)
    assert list(worktree_record.roots(delegation_folder.state_root())) == [root]
    assert pins(worked) == {worked.id}
    assert trees(worked) == {worked.id: "pending"}


@pytest.mark.heavy
def test_a_path_that_was_claimed_by_a_worker_that_was_started_again_is_freed(worked, monkeypatch):
    before = list(worktree_record.roots(delegation_folder.state_root()))
    with monkeypatch.context() as patch:
        patch.setenv(FAILPOINT_VARIABLE, "base pinned:1")
        identifier = worked.start("implement", delegator="editor", task="x")
        assert not processes_of(str(delegation_folder.state_root()))
    assert worked.finish(identifier).verdict == "unverified"
    assert not processes_of(str(delegation_folder.state_root()))
    tidy(MONTH)
    assert len(list(worktree_record.roots(delegation_folder.state_root()))) == len(before) + 1
    assert pins(worked) == {worked.id, identifier}
    assert trees(worked) == {worked.id: "pending", identifier: "pending"}


def test_a_place_that_is_being_claimed_is_left_alone(worked):
    from understudy.git.worktree import cleanup

    [root] = worktree_record.roots(delegation_folder.state_root())
    claim = cleanup.claim_worktree_path(root.parent.parent, root.parent.name)
    try:
        tidy(MONTH)
        assert claim.path.is_dir()
    finally:
        claim.release()
    tidy(MONTH)
    assert not claim.path.exists()


# -- what the doctor says -----------------------------------------------------------------------------------------


def doctor(project) -> tuple[bool, str, str]:
    [found] = project.call("doctor", only=["worktrees"]).checks
    return found.ok, found.message, found.hint or ""


def test_the_doctor_refuses_the_name_of_a_check_that_it_does_not_have(project):
    assert [check.name for check in project.call("doctor", only=["git", "trust"]).checks] == ["git", "trust"]
    with pytest.raises(UnderstudyError, match="`only` names no check: gti") as refused:
        project.call("doctor", only=["gti", "git"])
    assert (refused.value.kind, refused.value.parameter) == (ErrorKind.INVALID_PARAMS, "only")


def test_the_doctor_names_what_is_stale(worked):
    ok, message, _ = doctor(worked)
    assert ok
    assert "1 on disk" in message
    assert "1 of them pending" in message
    reject(worked, worked.id)
    worked.settings(f'[environment]\npython = "{project_python()}"\n\n[worktrees]\nkeep_days = {NOW:.12f}\n')
    ok, message, _ = doctor(worked)
    assert ok
    assert "1 expired" in message
    (delegation_folder.state_root() / "trash" / "left").mkdir(parents=True)
    assert "1 in the trash" in doctor(worked)[1]
    tidy(NOW)
    ok, message, _ = doctor(worked)
    assert (ok, "0 on disk" in message, "trash" in message) == (True, True, False)
    for name in ("base=20200101-000000-aaaaa", "20200101-000000-aaaaa"):  # the latter is of an earlier version
        worked.git("update-ref", f"refs/understudy/{name}", "HEAD")
        ok, message, hint = doctor(worked)
        assert not ok
        assert f"refs/understudy/{name}" in message
        subprocess.run(hint.partition(": ")[2].split(), check=True)
        assert doctor(worked)[0]


@pytest.mark.heavy
def test_the_doctor_reports_a_deleted_worktree_and_a_leftover_export(worked):
    delegation = worked.call("delegations/get", id=worked.id)
    shutil.rmtree(delegation.worktree)
    ok, message, hint = doctor(worked)
    assert not ok
    assert worked.id in message
    assert "is missing" in message
    commands = [words.split()[:3] for words in hint.split("understudy ")[1:]]
    assert commands[0][:2] == ["check", worked.id]
    worked.call("delegations/check", id=worked.id)
    assert doctor(worked)[0]
    commit = worked.call("delegations/export", id=worked.id, to="commit").commit
    name = f"refs/understudy/export-{commit[:12]}"
    assert name not in doctor(worked)[1]
    worked.git("branch", "taken", commit)
    ok, message, hint = doctor(worked)
    assert ok
    assert name in message
    subprocess.run(hint.partition(": ")[2].split(), check=True)
    assert name not in doctor(worked)[1]
    assert commit in worked.git("rev-parse", "taken")


def test_the_doctor_names_orphans(orphaned):
    ok, message, hint = doctor(orphaned)
    assert not ok
    assert orphaned.tree_id in message
    assert hint.endswith("can be restored.")
    orphaned.call("worktrees/remove", id=orphaned.tree_id)
    assert doctor(orphaned)[0]


# -- ownership -----------------------------------------------------------------------------------------------------


def test_the_place_of_a_tree_stays_its_own(worked):
    place = tree(worked)
    reference = discard_worktree(worked)
    other = another(worked)
    assert tree(worked, other).parent != place.parent
    assert restore(worked, reference) == place
    with pytest.raises(UnderstudyError) as caught:
        restore(worked, reference)
    assert caught.value.kind is ErrorKind.TARGET_EXISTS
    with pytest.raises(UnderstudyError) as caught:
        restore(worked, reference + "x")
    assert caught.value.kind is ErrorKind.UNKNOWN_DELEGATION


def test_who_handed_its_tree_on_cannot_take_it_away(worked):
    child = worked.finish(worked.call("delegations/reply", id=worked.id, text="Go on.").id).id
    assert not processes_of(str(delegation_folder.state_root()))
    [root] = worktree_record.roots(delegation_folder.state_root())
    assert worktree_record.chain(root) == [worked.id, child]
    assert not worktree_record.follow_up_failed(root, worked.id)
    assert (
        worktree_record.root_of(delegation_folder.state_root(), worked.id)
        == worktree_record.root_of(delegation_folder.state_root(), child)
        == root
    )
    for identifier, kind in ((worked.id, ErrorKind.CONFLICT), (child, None)):
        with pytest.raises(UnderstudyError) if kind else pytest.MonkeyPatch.context() as caught:
            discard_worktree(worked, identifier)
        assert kind is None or (caught.value.kind is kind and child in caught.value.message)
    assert trees(worked) == {}
    assert not pins(worked)


def test_a_result_whose_tree_was_deleted_by_hand_can_be_kept_all_the_same(worked):
    place = tree(worked)
    shutil.rmtree(place)
    reference = discard_worktree(worked)
    assert (restore(worked, reference) / "new.txt").read_text() == "new\n"
    accept(worked)
    assert (worked.top / "new.txt").read_text() == "new\n"


# -- any state of a tree ------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["text.txt", "only.txt", "d/x", "d/e/y", "n\nl", ".gitignore", "ignored.txt", "-x", "ü"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from(["", "1\n", "\0\1", "*.txt\n", LINES])),
        st.tuples(st.just("mode"), NAMES, st.sampled_from([0o600, 0o755, 0o444])),
        st.tuples(st.just("link"), NAMES, st.sampled_from(["text.txt", "/etc", "nowhere"])),
        st.tuples(st.just("delete"), NAMES, st.just("")),
        st.tuples(st.just("git"), st.just(""), st.sampled_from(["add -A", "add d", "rm -q --cached text.txt", "commit -qm x --allow-empty", "stash -q", "checkout -qB other", "reset -q --hard"])),
    ),
    max_size=8,
)  # fmt: skip


def change(top: Path, steps) -> None:
    for kind, name, value in steps:
        full = top / name
        if kind == "git":
            subprocess.run(["git", *value.split()], cwd=top, capture_output=True, check=False)
            continue
        try:
            if kind == "write":
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_text(value)
            elif kind == "mode" and not full.is_symlink():
                full.chmod(value)
            elif kind == "link":
                full.symlink_to(value)
            elif kind == "delete":
                full.unlink()
        except OSError:
            continue


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_any_state_of_a_tree_comes_back_byte_for_byte(worked, steps):
    place = tree(worked)
    change(place, steps)
    before = everything(place)
    diff = worked.call("delegations/diff", id=worked.id)
    reference = worked.call("worktrees/remove", id=worked.id).rescue_ref
    assert not place.exists()
    discard.empty_trash(delegation_folder.state_root())
    assert restore(worked, reference) == place
    assert everything(place) == before
    assert worked.call("delegations/diff", id=worked.id) == diff
    status = subprocess.run(["git", "status", "--porcelain=v2"], cwd=place, capture_output=True, check=False)
    assert status.returncode == 0
