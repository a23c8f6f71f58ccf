"""Kill decisions at every failpoint: afterwards the user's files, the journal and the worktrees agree."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numbered_lines import LINES, RESULT

from understudy.engine.worktrees import worktree_record
from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.git.worktree import rescue
from understudy.journal import delegation_folder
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError

MINE = "mine\n"
"""A line that the user added at the top of the file since the start; it must never be lost."""

BEFORE = {"text.txt": MINE + LINES, "old.txt": "old\n", "run.sh": "echo\n"}
AFTER = {"text.txt": MINE + RESULT, "run.sh": "echo\n", "deep/er/new.txt": "new\n"}


def heavy(*values):
    """Mark some of a test's parameters as heavy: they are more of the same."""
    return [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.heavy) for each in values]


PROGRAM = """
import json, os, sys
from pathlib import Path
from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.engine.review import review_state; from understudy.engine import follow_ups; from understudy.engine.retention import discard; from understudy.engine.review import decisions
from understudy.model.errors import UnderstudyError
top, method, params = json.loads(sys.stdin.readline())
print("ready", flush=True)
sys.stdin.readline()
try:
    method_table.call(method, params, TerminalCaller(Path(top)))
except UnderstudyError as error:
    print(error.kind.value, error.message, flush=True)
    sys.exit(3)
"""


class Doer:
    """A process that is about to do one request, has imported everything, and waits for a word."""

    def __init__(self, top: Path, method: str, params: dict, fault: str | None = None) -> None:
        environment = os.environ | ({FAILPOINT_VARIABLE: fault} if fault else {})
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self._say(json.dumps([str(top), method, params]))

    def go(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self._say("go")

    def end(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=60)[0]
        return self.process.returncode, said

    def kill(self) -> None:
        self.process.kill()

    def _say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()


class Accept(Doer):
    """The command of a person, from the start of its interpreter."""

    def __init__(self, bench: Bench) -> None:
        argv = [sys.executable, "-m", "understudy", "accept", bench.id, "--all", "--json"]
        self.process = subprocess.Popen(argv, cwd=bench.top, stdout=subprocess.PIPE, text=True)

    def go(self) -> None:
        """It does not wait."""


class Bench:
    """A finished delegation of five hunks, and a person who has written in the same file since."""

    def __init__(self, project) -> None:
        self.project = project
        self.top = project.top
        project.write("text.txt", LINES)
        project.write("old.txt", "old\n")
        project.write("run.sh", "echo\n")
        project.commit()
        project.program(
            "editor",
            f"""
            prompt = sys.stdin.read()
            if "asked for now" not in prompt:
                pathlib.Path("text.txt").write_text({RESULT!r})
                pathlib.Path("deep/er").mkdir(parents=True)
                pathlib.Path("deep/er/new.txt").write_text("new\\n")
                pathlib.Path("old.txt").unlink()
            say(type="result", ok=True)
            """,
        )
        self.id = project.run("implement", "text.txt", task="Number them.", delegator="editor").id
        self.folder = delegation_folder.open_folder(self.id)
        (self.top / "text.txt").write_text(MINE + LINES)
        self.git = project.fingerprint()
        self.looks = 0

    def call(self, method: str, **params):
        return self.project.call(method, **params)

    def do(self, method: str, params: dict, fault: str | None = None) -> tuple[int, str]:
        doer = Doer(self.top, method, params, fault)
        doer.go()
        return doer.end()

    def accept_all(self) -> str:
        token = self.call("delegations/decide", id=self.id, decisions=[{"decision": "accept"}]).undo_token
        assert token is not None
        return token

    def files(self) -> dict[str, str]:
        """Return every file of the user, including those with unusual names."""
        found = {}
        for path in sorted(self.top.rglob("*")):
            inside = path.relative_to(self.top)
            if path.is_file() and inside.parts[0] != ".git" and inside.name not in {"calc.py", ".gitignore"}:
                found[str(inside)] = path.read_text()
        return found

    def states(self) -> dict[str, set[str]]:
        diff = self.call("delegations/diff", id=self.id)
        return {file.path: {str(hunk.state) for hunk in file.hunks} for file in diff.files}

    def token(self) -> str | None:
        """Return the token of the accept that can be undone, from the journal."""
        open_ = []
        for event in self.project.events(self.id):
            if isinstance(event, events.Applied):
                open_.append(event.undo_token)
            elif isinstance(event, events.Undone):
                open_.remove(event.undo_token)
        assert len(open_) <= 1, open_
        return open_[0] if open_ else None

    def look(self) -> None:
        """Run a new process with a command that a user would run to check the state."""
        ways = [
            ("delegations/get", {"id": self.id}),
            ("delegations/list", {}),
            ("delegations/decide", {"id": self.id, "decisions": []}),
        ]
        method, params = ways[self.looks % len(ways)]
        self.looks += 1
        code, said = self.do(method, params)
        assert code == 0, said

    def settled(self) -> str:
        """Check that all is before or all is after, in the files and in the journal; return which."""
        found = self.files()
        assert found in (BEFORE, AFTER), sorted(found)
        state, count = ("pending", (5, 0)) if found == BEFORE else ("accepted", (0, 5))
        assert self.states() == {"text.txt": {state}, "old.txt": {state}, "deep/er/new.txt": {state}}
        review = self.call("delegations/get", id=self.id).review
        assert (review.pending, review.accepted) == count
        assert (self.token() is None) == (found == BEFORE)
        assert (self.top / "deep").is_dir() == (found == AFTER)
        assert self.project.fingerprint() == self.git
        left = {"decision-intent.json", "file-transaction"} & set(os.listdir(self.folder.path))
        assert not left
        return "before" if found == BEFORE else "after"

    def back(self) -> None:
        """Undo the accept, or accept and undo: everything must work after a kill."""
        token = self.token() or self.accept_all()
        assert self.files() == AFTER
        self.call("delegations/undo", undoToken=token)
        assert self.settled() == "before"


@pytest.fixture
def bench(project):
    return Bench(project)


def walk(bench, method, prepare, check, *, step: int = 1) -> list[str]:
    """Do a request again and again, killed at its first point, its second …, until it gets by; return what it came to."""
    ends = []
    number = 1
    while True:
        params = prepare()
        code, said = bench.do(method, params, f"*:{number}")
        assert code in {0, -signal.SIGKILL}, (number, said)
        if code == 0:
            assert number > 1
            return ends
        ends.append(check())
        number += step


def pending(bench):
    def prepare():
        if bench.token():
            bench.back()
        return everything(bench)

    return prepare


def everything(bench) -> dict:
    return {"id": bench.id, "decisions": [{"decision": "accept"}]}


def accepted(bench):
    return lambda: {"undoToken": bench.token() or bench.accept_all()}


def looked_at(bench):
    def check() -> str:
        bench.look()
        return bench.settled()

    return check


def test_an_accept_killed_on_its_way(bench):
    ends = walk(bench, "delegations/decide", pending(bench), looked_at(bench), step=4)
    assert ends[0] == "before"
    assert ends[-1] == "after"
    assert ends == sorted(ends, reverse=True), "there is one instant at which it becomes true"
    bench.back()


@pytest.mark.heavy
def test_an_undo_killed_on_its_way(bench):
    ends = walk(bench, "delegations/undo", accepted(bench), looked_at(bench), step=5)
    assert ends[0] == "after"
    assert ends[-1] == "before"


@pytest.mark.smoke
@pytest.mark.heavy
def test_an_undo_of_one_hunk_killed_on_its_way(bench):
    def prepare():
        if bench.token():
            bench.call("delegations/undo", undoToken=bench.token())
        token = bench.accept_all()
        return {"undoToken": token, "hunks": [second().id]}

    def second():
        files = bench.call("delegations/diff", id=bench.id).files
        return next(file.hunks[1] for file in files if file.path == "text.txt")

    def check() -> str:
        bench.look()
        assert bench.token(), "the other hunks are still accepted"
        state = str(second().state)
        partly = {**AFTER, "text.txt": MINE + RESULT.replace("twenty\n", "line 20\n")}
        assert bench.files() == (AFTER if state == "accepted" else partly)
        return state

    ends = walk(bench, "delegations/undo", prepare, check, step=6)
    assert ends == sorted(ends)
    assert set(ends) == {"accepted", "pending"}
    bench.call("delegations/undo", undoToken=bench.token())
    assert bench.settled() == "before"


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["decide", "undo"])
def test_a_decision_killed_at_every_point(bench, method):
    prepare = pending(bench) if method == "decide" else accepted(bench)
    ends = walk(bench, f"delegations/{method}", prepare, looked_at(bench))
    assert len(ends) >= 25
    assert ends == sorted(ends, reverse=method == "decide")
    assert set(ends) == {"before", "after"}
    if bench.token():
        bench.back()


@pytest.mark.parametrize(
    "at",
    [*heavy("files replaced:1", "before event:3", "synced:1", "committed:1", "cleaned:1")],
)
def test_an_interrupted_recovery_is_recovered(bench, at):
    """A process that only looks carries on what another began; killed, it leaves that to the next."""
    prepare, ends = pending(bench), set()
    for number in range(1, 14, 4):
        assert bench.do("delegations/decide", prepare(), at)[0] == -signal.SIGKILL
        code, said = bench.do("delegations/get", {"id": bench.id}, f"*:{number}")
        assert code in {0, -signal.SIGKILL}, said
        bench.look()
        ends.add(bench.settled())
    assert ends == {"before" if at in {"synced:1", "files replaced:1"} else "after"}


@pytest.mark.heavy
def test_an_accept_of_what_is_there_already_killed_on_its_way(bench):
    """No file changes, so no exchange tells: the intention alone does."""

    def prepare():
        if bench.token():
            bench.back()
        for path, text in AFTER.items():
            (bench.top / path).parent.mkdir(parents=True, exist_ok=True)
            (bench.top / path).write_text(text)
        (bench.top / "old.txt").unlink(missing_ok=True)
        return everything(bench)

    def check() -> str:
        bench.look()
        assert bench.files() == AFTER
        [states] = {frozenset(each) for each in bench.states().values()}
        assert (bench.token() is None) == (states == {"pending"})
        (found,) = states
        if bench.token() is not None:
            bench.call("delegations/undo", undoToken=bench.token())
        return found

    ends = walk(bench, "delegations/decide", prepare, check, step=2)
    assert ends == sorted(ends, reverse=True)
    assert set(ends) == {"pending", "accepted"}


@pytest.mark.heavy
def test_a_reject_killed_on_its_way(bench):
    def prepare():
        # A rejected hunk that is rejected again gets another reason; what it was before does not matter here.
        reason = f"No, {bench.looks}."
        return {"id": bench.id, "decisions": [{"path": "text.txt", "decision": "reject", "reason": reason}]}

    def check() -> str:
        bench.look()
        assert bench.files() == BEFORE
        review = bench.call("delegations/get", id=bench.id).review
        states = [state for file in bench.call("delegations/diff", id=bench.id).files for state in file.hunks]
        assert review.rejected == sum(hunk.state == "rejected" for hunk in states)
        assert review.pending == sum(hunk.state == "pending" for hunk in states)
        assert all(hunk.reason for hunk in states if hunk.state == "rejected")
        return ""

    walk(bench, "delegations/decide", prepare, check)
    assert bench.states()["text.txt"] == {"rejected"}


def random_kills(bench, count: int, seed: int) -> list[str]:
    """Kill an accept and its recovery at random times, and undo the accept each time."""
    chance = random.Random(seed)
    ends = []
    longest = {"request": 0.2, "command": 0.8}
    for number in range(count):
        if bench.token():
            bench.back()
        way = "command" if number % 4 == 3 else "request"
        doer = Accept(bench) if way == "command" else Doer(bench.top, "delegations/decide", everything(bench))
        doer.go()
        began = time.monotonic()
        deadline = began + chance.random() * longest[way]
        while time.monotonic() < deadline and doer.process.poll() is None:
            time.sleep(0.0005)
        doer.kill()
        code, said = doer.end()
        assert code in {0, -signal.SIGKILL}, said
        took = time.monotonic() - began
        longest[way] = min(longest[way], took * 1.1) if code == 0 else min(2.0, longest[way] * 1.02)
        bench.look()
        ends.append(bench.settled())
    if bench.token():
        bench.back()
    return ends


@pytest.mark.heavy
def test_an_accept_killed_at_random(bench):
    random_kills(bench, 8, 1)


@pytest.mark.heavy
def test_an_accept_killed_at_a_hundred_random_instants(bench):
    ends = random_kills(bench, 100, 2)
    assert len(ends) == 100
    assert min(ends.count("before"), ends.count("after")) > 5, "the instants were spread over the accept"


# Trees


def tree_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def place_of(bench) -> Path:
    [root] = worktree_record.roots(delegation_folder.state_root())
    return root


def is_whole(bench, contents: dict[str, bytes]) -> str:
    """Check that the worktree exists and works, or is removed and can be restored; return which."""
    delegation = bench.call("delegations/get", id=bench.id)
    root = place_of(bench)
    listed = bench.call("worktrees/list").worktrees
    assert bench.files() == BEFORE
    assert (bench.folder.path / "decision-intent.json").exists() is False
    if worktree_record.removed(root) is None:
        [entry] = listed
        assert (entry.id, entry.path) == (bench.id, delegation.worktree)
        assert tree_of(Path(entry.path)) == contents
        assert bench.settled() == "before"
        bench.back()
        return "there"
    assert not listed
    assert delegation.worktree is None
    with pytest.raises(UnderstudyError) as caught:
        bench.accept_all()
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert "restore" in (caught.value.hint or "")
    return "gone"


def newest_rescue() -> str:
    return rescue.list_rescues(delegation_folder.state_root())[0].ref


def discard_walk(bench, step: int) -> list[str]:
    tree = Path(bench.call("delegations/get", id=bench.id).worktree)
    contents = tree_of(tree)

    def prepare():
        if worktree_record.removed(place_of(bench)) is not None:
            bench.call("worktrees/restore", rescueRef=worktree_record.removed(place_of(bench)))
        return {"id": bench.id}

    def check() -> str:
        bench.look() if bench.looks % 3 != 2 else bench.do("delegations/get", {"id": bench.id})
        return is_whole(bench, contents)

    return walk(bench, "delegations/discard", prepare, check, step=step)


def restore_walk(bench, step: int) -> list[str]:
    tree = Path(bench.call("delegations/get", id=bench.id).worktree)
    contents = tree_of(tree)

    def prepare():
        if worktree_record.removed(place_of(bench)) is None:
            bench.call("delegations/discard", id=bench.id)
        return {"rescueRef": worktree_record.removed(place_of(bench))}

    def check() -> str:
        bench.do("delegations/get", {"id": bench.id})
        return is_whole(bench, contents)

    ends = walk(bench, "worktrees/restore", prepare, check, step=step)
    assert is_whole(bench, contents) == "there"
    return ends


@pytest.mark.heavy
def test_a_discard_killed_on_its_way(bench):
    ends = discard_walk(bench, 2)
    assert ends[0] == "there"
    assert ends[-1] == "gone"
    assert ends == sorted(ends, reverse=True)


@pytest.mark.heavy
def test_a_restoration_killed_on_its_way(bench):
    ends = restore_walk(bench, 2)
    assert ends[0] == "gone"
    assert ends[-1] == "there"
    assert ends == sorted(ends)


@pytest.mark.heavy
def test_a_discard_and_a_restoration_killed_at_every_point(bench):
    assert set(discard_walk(bench, 1)) == {"there", "gone"}
    bench.call("worktrees/restore", rescueRef=worktree_record.removed(place_of(bench)))
    assert set(restore_walk(bench, 1)) == {"there", "gone"}


# Replies

POINTS = ["created:1", "handed on:1", "spawned:1", "superseded:1"]


@pytest.mark.parametrize("at", [*POINTS[1:3], *heavy(POINTS[0], POINTS[3])])
def test_a_reply_killed_on_its_way(bench, at):
    """Either a follow-up has the pending hunks, or the user can still decide on them."""
    code, said = bench.do("delegations/reply", {"id": bench.id, "text": "Again."}, at)
    assert code == -signal.SIGKILL, said
    [child] = [one.id for one in bench.call("delegations/list").delegations if one.id != bench.id]
    done = bench.project.finish(child)
    if at in POINTS[:2]:  # before there was a worker
        assert done.verdict == "interrupted"
        assert bench.settled() == "before"
        bench.back()
        again = bench.project.finish(bench.call("delegations/reply", id=bench.id, text="Again.").id)
    else:
        again = done
    assert again.verdict == "unverified", again.error
    assert again.review.pending == 5
    assert {state for each in bench.states().values() for state in each} == {"superseded"}
    assert bench.call("delegations/get", id=bench.id).review.pending == 0
    bench.call("delegations/decide", id=again.id, decisions=[{"decision": "accept"}])
    assert bench.files() == AFTER


@pytest.mark.parametrize("at", heavy("borrowed copied:1", "contents copied:1", "follow-up pinned:1"))
def test_a_follow_up_whose_workers_are_killed_while_they_take_the_tree_over(bench, at, monkeypatch):
    """What it was given is its parent's again, in every list, and nothing is in the way of another try."""
    monkeypatch.setenv(FAILPOINT_VARIABLE, at)  # for the workers that are started after the first one
    code, said = bench.do("delegations/reply", {"id": bench.id, "text": "Again."}, at)
    assert code == 0, said
    [child] = [one.id for one in bench.call("delegations/list").delegations if one.id != bench.id]
    assert bench.project.finish(child).verdict == "interrupted"
    monkeypatch.delenv(FAILPOINT_VARIABLE)
    bench.look()
    assert bench.settled() == "before"
    assert (
        bench.project.git("for-each-ref", "--format=%(refname)")
        == f"refs/heads/main\nrefs/understudy/base={bench.id}\n"
    )
    reference = bench.call("delegations/discard", id=bench.id).rescue_ref
    bench.call("worktrees/restore", rescueRef=reference)
    bench.back()
    again = bench.project.finish(bench.call("delegations/reply", id=bench.id, text="Again.").id)
    assert again.review.pending == 5
    bench.call("delegations/decide", id=again.id, decisions=[{"decision": "accept"}])
    assert bench.files() == AFTER


@pytest.mark.parametrize("at", heavy("follow-up pinned:1", "worktree removed:1"))
def test_a_follow_up_whose_worker_is_killed_once_is_started_again(bench, at):
    code, said = bench.do("delegations/reply", {"id": bench.id, "text": "Again."}, at)
    assert code == 0, said
    [child] = [one.id for one in bench.call("delegations/list").delegations if one.id != bench.id]
    again = bench.project.finish(child)
    assert (again.verdict, again.review.pending) == ("unverified", 5)
    bench.call("delegations/decide", id=child, decisions=[{"decision": "accept"}])
    assert bench.files() == AFTER


# Two at once


@pytest.mark.parametrize(
    ("at", "second"),
    [
        *heavy(
            ("files replaced:1", "accept"),
            ("committed:1", "undo"),
            ("exchanged:1", "accept"),
            ("committed:1", "accept"),
            ("exchanged:1", "undo"),
            ("files replaced:1", "undo"),
        ),
    ],
)
def test_the_next_decision_in_the_same_files_completes_it_first(bench, at, second):
    """Another delegation's accept merges with what the first one came to, never with a half of it."""
    project = bench.project
    project.program(
        "other",
        """
        text = pathlib.Path("text.txt").read_text()
        pathlib.Path("text.txt").write_text(text.replace("line 12\\n", "twelve\\n"))
        say(type="result", ok=True)
        """,
    )
    other = project.run("implement", "text.txt", task="Twelve.", delegator="other").id
    token = None
    if second == "undo":
        token = bench.call("delegations/decide", id=other, decisions=[{"decision": "accept"}]).undo_token
    assert bench.do("delegations/decide", everything(bench), at)[0] == -signal.SIGKILL
    if second == "accept":
        code, said = bench.do("delegations/decide", {"id": other, "decisions": [{"decision": "accept"}]})
    else:
        code, said = bench.do("delegations/undo", {"undoToken": token})
    assert code == 0, said

    def twelve(files: dict[str, str]) -> dict[str, str]:
        put = ("line 12\n", "twelve\n") if second == "accept" else ("", "")
        return files | {"text.txt": files["text.txt"].replace(*put)}

    done = at == "committed:1"
    assert bench.files() == twelve(AFTER if done else BEFORE)
    assert bench.states()["text.txt"] == {"accepted" if done else "pending"}
    if not done:
        bench.accept_all()
    assert bench.files() == twelve(AFTER)


@pytest.mark.parametrize("decision", [*heavy("accept"), "reject"])
def test_two_who_decide_everything_at_once_count_each_hunk_once(bench, decision):
    """Each reports what it did itself; the hunks of both together are all hunks, none twice."""
    argv = [sys.executable, "-m", "understudy", decision, bench.id, "--all", "--json"]
    for _ in range(3):
        both = [subprocess.Popen(argv, cwd=bench.top, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        moved, tokens = [], []
        for process in both:
            out, err = process.communicate(timeout=60)
            if process.returncode != 0:  # it looked when the other one was done
                assert b"is pending" in out + err, out + err
                continue
            found = json.loads(out)
            moved += found["decided"]
            tokens += [found["undoToken"]] if "undoToken" in found else []
        assert len(moved) == len(set(moved)) == 5
        review = bench.call("delegations/get", id=bench.id).review
        if decision == "accept":
            assert bench.settled() == "after"
            assert len(tokens) == 1
            bench.back()
            continue
        assert (review.pending, review.rejected) == (0, 5)
        assert not tokens
        break


def test_one_who_decides_a_moment_later_says_that_nothing_changed(bench):
    """The second of two who have read the same diff has moved nothing, and does not claim the other one's hunks."""
    from understudy.frontends.cli.review import decide
    from understudy.frontends.cli.terminal import terminal

    before = bench.call("delegations/diff", id=bench.id).files
    decisions = [{"path": file.path, "hunk": hunk.id, "decision": "accept"} for file in before for hunk in file.hunks]
    first = bench.call("delegations/decide", id=bench.id, decisions=decisions)
    second = bench.call("delegations/decide", id=bench.id, decisions=decisions)
    assert (len(first.decided), second.decided, second.undo_token) == (5, [], None)
    plain = terminal.Paint(on=False)
    assert "accepted: 5 hunks in 3 files" in decide.summary(bench.id, before, first, plain)
    assert "accepted" not in decide.summary(bench.id, before, second, plain)
