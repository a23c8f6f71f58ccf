"""The pauses of delegators, which all processes share."""

from __future__ import annotations

import subprocess
import sys
import threading

from understudy.engine.queueing import start_conditions
from understudy.journal import delegation_folder
from understudy.model.config.config_entries import CircuitState
from understudy.model.config.delegators import Delegator
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import ErrorInfo, ErrorKind

ASKS = """
import sys
from understudy.engine.queueing import start_conditions
from understudy.journal import delegation_folder
from understudy.model.config.delegators import Delegator
sys.stdin.readline()
root = delegation_folder.state_root()
pause = start_conditions.admit_attempt(root, Delegator(name="d", tool="generic"), None)
print("admitted" if pause is None else "refused", flush=True)
sys.stdin.readline()
"""


def answers_of(number: int) -> list[str]:
    """Let real processes ask at once, all of them alive until the last has its answer."""
    started = [
        subprocess.Popen([sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        for one in started:
            one.stdin.write("ask\n")
            one.stdin.flush()
        return [one.stdout.readline().strip() for one in started]
    finally:
        for one in started:
            one.communicate("end\n", timeout=60)


def test_of_several_processes_one_probes(own_home) -> None:
    """Real processes ask at the same time, when the pause is over."""
    delegator, root = Delegator(name="d", tool="generic"), delegation_folder.state_root()
    for _ in range(3):
        error = ErrorInfo(ErrorKind.OVERLOADED, "Busy.")
        start_conditions.attempt_failed(root, delegator, None, error, PauseBounds(pause_minutes=1e-9))
    assert sorted(answers_of(4)) == ["admitted"] + ["refused"] * 3
    assert start_conditions.admit_attempt(root, delegator, None) is None, "they have ended, so the next one probes"
    [pause] = start_conditions.pauses(root, delegator, None)
    assert pause.state is CircuitState.HALF_OPEN


def test_no_failure_is_lost_between_threads(own_home) -> None:
    delegator, root = Delegator(name="d", tool="generic"), delegation_folder.state_root()
    error = ErrorInfo(ErrorKind.AUTH_FAILED, "No.")
    bounds = PauseBounds(failures=1000)

    def fail() -> None:
        for _ in range(10):
            start_conditions.attempt_failed(root, delegator, None, error, bounds)

    threads = [threading.Thread(target=fail) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    start_conditions.attempt_failed(root, delegator, None, error, PauseBounds(failures=41))
    [pause] = start_conditions.pauses(root, delegator, None)
    assert pause.failures == 41
