"""A worker with a policy of the test's own: ``policy_worker.py ID LOCK DECISION…`` (``retry``, ``next``, ``retry:2``)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import datetime

from understudy.engine.running.failure_policy import Decision, Next, Retry, Stop
from understudy.engine.running.lifecycle import DelegationRun
from understudy.journal import delegation_folder
from understudy.model.delegations import Attempt
from understudy.model.errors import ErrorInfo

DECISIONS = sys.argv[3:]


def policy(attempts: Sequence[Attempt], failure: ErrorInfo, clock: datetime) -> Decision:
    _ = failure, clock
    word, _, seconds = (DECISIONS + ["stop"] * len(attempts))[len(attempts) - 1].partition(":")
    return {"retry": Retry(float(seconds or 0)), "next": Next(), "stop": Stop()}[word]


lock = int(sys.argv[2])
os.set_inheritable(lock, False)
os.umask(0o077)
folder = delegation_folder.open_folder(sys.argv[1])
asyncio.run(DelegationRun(folder, delegation_folder.read_spec(folder), lock, policy).run())
