"""Threads in which a face answers requests: the functions of the table are synchronous, and some wait long."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from understudy.api import faults, table

QUICK_THREADS = 8
PATIENT_THREADS = 64
PATIENT = frozenset(
    table.PREFIX + name
    for name in (
        "delegations/wait",
        "delegations/events",
        "delegations/check",
        "delegators/test",
        "modelServers/probe",
        "modelServers/models",
        "tools/list",
        "doctor",
    )
)
"""Methods that may take long have threads of their own: a client that waits for 64 delegations can still cancel one."""


class Pool:
    """At most so many daemon threads, each started when it is first needed.

    Not ``concurrent.futures``: the interpreter would wait at its end for a request that does not come back.
    """

    def __init__(self, most: int) -> None:
        """Start nothing yet."""
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` as soon as a thread is free; it answers by itself, and what it raises is a fault."""
        with self._lock:
            self._unfinished += 1
            starts = self._unfinished > self._threads and self._threads < self._most
            self._threads += starts
        self._jobs.put(job)
        if starts:
            threading.Thread(target=self._work, name="request", daemon=True).start()

    def close(self) -> None:
        """Let the threads end when what was submitted is done."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # the thread serves others after this one
                faults.internal("request", error)
            finally:
                with self._lock:
                    self._unfinished -= 1
