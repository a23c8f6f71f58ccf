"""A worker with a policy of the test's own: ``policy_worker.py ID LOCK DECISION…`` (``retry``, ``next``, ``retry:2``).

With ``LIST_IMPORTS`` it writes the names of the modules that were imported when the agent started to that file.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from pathlib import Path

from understudy.engine.running.lifecycle.delegation_run import DelegationRun
from understudy.journal import delegation_folder
from understudy.model.verdicts import Verdict
from understudy.policy.next_step import RULES, Decision, History, NextCandidate, Retry
from understudy.process.identity import Identity
from understudy.process.programs import children

DECISIONS = sys.argv[3:]


def after_failure(history: History) -> Decision | None:
    if history.failure is None:
        return None
    word, _, seconds = (DECISIONS + ["stop"] * len(history.tries))[len(history.tries) - 1].partition(":")
    return {"retry": Retry(float(seconds or 0)), "next": NextCandidate(), "stop": None}[word]


def until_verified(history: History) -> Decision | None:
    """With ``UNTIL_VERIFIED``: let the next candidate try, ``fresh`` or ``continuing``, while nothing is verified."""
    how = os.environ.get("UNTIL_VERIFIED")
    if how is None or not history.is_settled or history.kept.verdict is Verdict.VERIFIED:
        return None
    return NextCandidate(fresh=how == "fresh")


def list_imports(observer, child: Identity, alive: bool) -> None:
    if alive:
        Path(os.environ["LIST_IMPORTS"]).write_text("\n".join(sorted(sys.modules)))
    observer(child, alive)


if "LIST_IMPORTS" in os.environ:
    on_child_change = children.on_child_change
    children.on_child_change = lambda observer: on_child_change(functools.partial(list_imports, observer))

lock = int(sys.argv[2])
os.set_inheritable(lock, False)
os.umask(0o077)
folder = delegation_folder.open_folder(sys.argv[1])
asyncio.run(
    DelegationRun(folder, delegation_folder.read_spec(folder), lock, [after_failure, until_verified, *RULES[1:]]).run()
)
