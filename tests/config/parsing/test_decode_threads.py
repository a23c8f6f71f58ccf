"""Structures are decoded in many threads from the first moment on: the process must survive that."""

from __future__ import annotations

import subprocess
import sys

_RACE = """
import sys, threading
sys.setswitchinterval(1e-6)
from understudy.config.parsing import file_schema
from understudy.model.config.delegators import Delegator
value = {"name": "x", "tool": "generic", "launch": {"mode": "headless", "command": ["a"]}, "limits": {"max_usd": "1"}}
barrier = threading.Barrier(8)
def work():
    barrier.wait()
    for _ in range(50):
        file_schema.from_file(value, Delegator)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_first_use_in_many_threads_at_once() -> None:
    # Without `ready`, two of three such processes end by SIGSEGV.
    for _ in range(8):
        done = subprocess.run([sys.executable, "-c", _RACE], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
