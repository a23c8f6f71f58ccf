"""Many delegations at once, and kills at random moments: each ends once, and nothing is left."""

from __future__ import annotations

import random
import threading
import time

import pytest
from killed_workers import ends, holders
from killed_workers import kill as kill_process
from project_python import project_python

from understudy.engine.bases import base_recorder
from understudy.journal import delegation_folder
from understudy.store import store

BUSY = """
    import subprocess
    for number in range(6):
        pathlib.Path(f"file{number}.txt").write_text(str(number))
        say(type="text", text=f"{number} ")
        subprocess.Popen(["sleep", "600.25"], start_new_session=True)
        time.sleep(0.05)
    say(type="result", ok=True, text="done")
"""


@pytest.mark.smoke
@pytest.mark.heavy
def test_twenty_at_once_and_none_is_lost(project):
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 20\n')
    project.program("busy", BUSY)
    started = [project.start("implement", delegator="busy", task=str(number)) for number in range(20)]
    for identifier in started:
        done = project.finish(identifier, 180)
        assert (done.verdict, done.reservations) == ("unverified", ["no_checks"])
        assert len(done.result.files) == 6
        assert len(ends(project.events(identifier))) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_moments(project, seed):
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 3\n')
    project.program("busy", BUSY)
    chance = random.Random(seed)
    started = [project.start("implement", delegator="busy", task=str(number)) for number in range(10)]
    over = threading.Event()

    def kill():
        while not over.is_set():
            identifier = chance.choice(started)
            for pid in holders(identifier) if chance.random() < 0.5 else holders(identifier)[: chance.randint(0, 1)]:
                kill_process(pid, identifier)
            over.wait(chance.random() * 0.3)

    killer = threading.Thread(target=kill)
    killer.start()
    time.sleep(6)
    over.set()
    killer.join()
    for identifier in started:
        done = project.finish(identifier, 120)
        assert len(ends(project.events(identifier))) == 1
        assert done.verdict in {"unverified", "interrupted", "failed", "no_changes"}, done
    root = delegation_folder.state_root()
    assert store.queued(root) == store.launched(root) == []
    base_recorder.tidy(root)
    assert not base_recorder.has_snapshots(root)
