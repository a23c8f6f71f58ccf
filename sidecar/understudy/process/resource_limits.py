"""Start a program with resource limits: ``with_limits`` wraps its arguments, and this file sets the limits.

``python -I resource_limits.py PLAN PROGRAM ARGUMENTS…``, with the plan as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

GENEROUS: Mapping[str, int] = {"DATA": 4 << 30, "FSIZE": 256 << 20, "NPROC": 512, "NOFILE": 4096, "CORE": 0}
"""Memory of each process and size of each file in bytes, processes besides the user's others, open files, no core."""


MOST_MEMORY_BYTES = 8 << 30
MOST_PROCESSES = 512


def memory_for_all() -> int:
    """Return how many bytes all processes of a command may use together: half of this machine's memory, at most."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return MOST_MEMORY_BYTES
    return min(MOST_MEMORY_BYTES, installed // 2)


def with_limits(argv: Sequence[str], limits: Mapping[str, int], *, join_output: bool = False) -> list[str]:
    """Return the arguments that run ``argv`` with ``limits``; ``join_output`` writes errors to standard output."""
    plan = {"limits": dict(limits), "join": join_output}
    return [sys.executable, "-I", str(Path(__file__)), json.dumps(plan), *argv]


def main() -> None:
    """Set the limits, and become the program."""
    plan = json.loads(sys.argv[1])
    _set_limits(plan["limits"])
    if plan["join"]:
        os.dup2(1, 2)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - an argument vector


# The ghostwriter's launcher has its own copy of these two functions, because it imports nothing of Understudy.
def _set_limits(limits: Mapping[str, int]) -> None:
    """Set resource limits; the number of processes is meant in addition to those that the user has now."""
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        wanted = value + _threads() if name == "NPROC" else value
        hard = resource.getrlimit(number)[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(number, (limit, limit))
        except (OSError, ValueError):  # macOS refuses some of them
            continue


def _threads() -> int:
    """Count the user's threads, as far as ``/proc`` shows them."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            count += len([*(entry / "task").iterdir()]) if entry.stat().st_uid == os.getuid() else 0
        except OSError:
            continue
    return count


if __name__ == "__main__":
    main()
