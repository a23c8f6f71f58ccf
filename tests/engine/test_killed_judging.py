"""Kill the worker at many points of judging: one end, no process, and no mutant where a person looks."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from killed_workers import ends, holders, kill, processes_of
from project_python import project_python
from wait_until import until

from understudy.journal import delegation_folder, worker_files
from understudy.model.delegation import events

TESTS = """import calc


def test_add():
    assert calc.add(1, 2) == 3


def test_clamp():
    assert [calc.clamp(value, 0, 9) for value in (-1, 5, 99)] == [0, 5, 9]
"""
STEP_SECONDS = 0.001


class Judged:
    """A delegation whose result is mutation-tested, and what a person sees of it."""

    def __init__(self, project):
        self.project = project
        project.program("writer", f"pathlib.Path('test_calc.py').write_text({TESTS!r}); say(type='result', ok=True)")
        project.settings(f'[environment]\npython = "{project_python()}"\n\n[evidence]\nmax_mutants = 6\n')
        self.code = (project.top / "calc.py").read_text()
        self.mine = project.fingerprint()
        self.id = project.start("tests", "calc.py", delegator="writer")
        self.folder = delegation_folder.open_folder(self.id)
        self.base = 0
        """The last event before the current judging."""

    def new_events(self, kind):
        return [event for event in self.project.events(self.id) if event.seq > self.base and isinstance(event, kind)]

    def scratch(self):
        return list((self.folder.path / "checks").glob("judge-*"))

    def copies(self):
        """Return the copies of the code in the scratch folders."""
        return [path for top in self.scratch() for path in top.glob("*/*/*/calc.py")]

    def mutated(self):
        """Return whether a copy of the code has a mutant now: in place, or in the memory of a forked process."""
        for path in self.copies():
            try:
                if path.read_text() != self.code:
                    return True
            except OSError:
                continue
        return False

    def fresh(self, name):
        """Return a condition: the file beside the journal was written since now."""
        path = self.folder.path / name
        before = path.stat().st_mtime_ns if path.exists() else 0
        return lambda: path.exists() and path.stat().st_mtime_ns > before

    def kill_when(self, condition, what):
        """Kill the worker at the first moment at which the condition holds; return False if it ended before that."""
        until(lambda: worker_files.is_held(self.folder), "the worker runs")
        deadline = time.monotonic() + 60
        # A lock that was just passed on names no worker yet, or the one before.
        while not (condition() and any(kill(pid, self.id) for pid in holders(self.id)[:1])):
            if not worker_files.is_held(self.folder):
                return False
            assert time.monotonic() < deadline, f"never: {what}"
            time.sleep(STEP_SECONDS)
        return True

    def check_again(self):
        """Start the checks as a person does, who does not wait for them."""
        self.base = self.project.call("delegations/get", id=self.id).last_seq
        child = os.fork()
        if child == 0:
            try:
                self.project.call("delegations/check", id=self.id)
            finally:
                os._exit(0)
        return child

    def looked_at(self):
        """Look as a person does, twice, and check what must hold after any kill."""
        until(lambda: not worker_files.is_held(self.folder), "the lock of the killed worker is free")
        self.project.call("delegations/list")
        found = self.project.call("delegations/get", id=self.id)
        assert found.state == "finished"
        began = bool(self.new_events(events.CheckStarted | events.CheckFinished | events.Note))
        once = len(ends(self.new_events(events.Finished)))
        assert once == 1 if began or self.base == 0 else once == 0
        assert len(ends(self.project.events(self.id)[-1:])) == 1
        self.project.call("delegations/get", id=self.id)
        assert len(self.new_events(events.Finished)) == once
        left = processes_of(str(delegation_folder.state_root()))
        assert not left, left
        if began:
            assert not self.scratch()
        self.nothing_is_mutated(found)
        return found

    def nothing_is_mutated(self, found):
        result = self.project.call("delegations/file", id=self.id, path="calc.py", side="result")
        assert result.text == self.code
        tree = Path(found.worktree)
        assert (tree / "calc.py").read_text() == self.code
        # A check that was killed leaves its cache, which the next check does not see.
        allowed = {"calc.py", "test_calc.py", ".gitignore", ".git", ".pytest_cache"}
        assert {path.name for path in tree.iterdir()} <= allowed
        assert (self.project.top / "calc.py").read_text() == self.code
        assert self.project.fingerprint() == self.mine
        assert self.project.call("delegations/file", id=self.id, path="test_calc.py", side="result").text == TESTS


@pytest.mark.smoke
@pytest.mark.heavy
def test_a_worker_killed_while_it_judges(project):
    """First while the delegation runs, then again and again while its checks run once more."""
    judged = Judged(project)
    judged.kill_when(judged.copies, "a private copy")
    found = judged.looked_at()
    assert (found.verdict, found.error.kind) == ("interrupted", "interrupted")
    assert len(ends(project.events(judged.id))) == 1

    points = {
        "before the first event": judged.scratch,
        "a check began": lambda: judged.new_events(events.CheckStarted),
        "the private copy is made": judged.copies,
        "a mutant is in place": judged.mutated,
        "the report is saved": judged.fresh("mutation-report.json"),
        "a check ended": lambda: judged.new_events(events.CheckFinished),
    }
    for number in range(2):
        points[f"random moment {number}"] = later(random.Random(number).random() * 2)
    hit = 0
    for what, condition in points.items():
        child = judged.check_again()
        hit += judged.kill_when(condition, what)
        os.waitpid(child, 0)
        assert judged.looked_at().verdict == "interrupted", what
    assert hit >= len(points) - 1, "nearly every kill meets a worker at work"

    # The worker outlives the process that asked for it.
    child = judged.check_again()
    until(judged.copies, "a private copy")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    until(lambda: not worker_files.is_held(judged.folder), "the checks have ended")
    done = judged.looked_at()
    assert (done.checks[0].ok, done.checks[0].mutation.unfinished) == (True, None)


def later(seconds):
    """Return a condition that holds from so many seconds after it was first asked for."""
    first = []

    def passed():
        first[:] = first or [time.monotonic()]
        return time.monotonic() - first[0] > seconds

    return passed
