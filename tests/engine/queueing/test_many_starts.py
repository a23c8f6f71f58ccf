"""Real processes: many starts at once from two frontends, everything killed in between, and nothing lost."""

from __future__ import annotations

import many_starts
import pytest
from project_python import project_python

from understudy.journal import delegation_folder

SLOTS = 4


@pytest.mark.heavy
def test_many_starts_and_a_kill_of_everything_lose_nothing(project):
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = {SLOTS}\n')
    done = '{"type": "result", "ok": true, "text": "done"}'
    project.delegator("brief", "/bin/sh", "-c", f"echo x > new.txt; echo '{done}'")
    params = {"recipe": "implement", "task": "x", "delegator": "brief", "workspace": str(project.top)}
    figures = many_starts.run(30, project.top, delegation_folder.state_root(), params, kill_after=20)
    assert figures.refused == []
    assert figures.lost == []
    assert 20 <= len(figures.answered) <= 30
    assert figures.ended_before_kill < 20, "some wait when everything is killed"
    verdicts = [verdict for [verdict] in figures.ends.values()]
    assert set(verdicts) <= {"unverified", "interrupted"}
    assert verdicts.count("interrupted") <= SLOTS, "only what ran when everything was killed"
    assert figures.largest_overtaking <= 2 * SLOTS
    assert figures.most_processes <= 3 + 1 + 4 * SLOTS, "what waits has no process"
