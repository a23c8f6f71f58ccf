"""A worker with a policy of the test's own: ``policy_worker.py ID LOCK DECISION…`` (``retry``, ``next``, ``retry:2``).

With ``LIST_IMPORTS`` it writes the names of the modules that were imported when the agent started to that file.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from understudy.engine.running.attempts.failure_policy import Decision, Next, Retry, Stop
from understudy.engine.running.lifecycle.delegation_run import DelegationRun
from understudy.journal import delegation_folder
from understudy.model.delegation.delegations import Attempt
from understudy.model.errors import ErrorInfo
from understudy.process.identity import Identity
from understudy.process.programs import children

DECISIONS = sys.argv[3:]


def policy(attempts: Sequence[Attempt], failure: ErrorInfo, clock: datetime) -> Decision:
    _ = failure, clock
    word, _, seconds = (DECISIONS + ["stop"] * len(attempts))[len(attempts) - 1].partition(":")
    return {"retry": Retry(float(seconds or 0)), "next": Next(), "stop": Stop()}[word]


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
asyncio.run(DelegationRun(folder, delegation_folder.read_spec(folder), lock, policy).run())
