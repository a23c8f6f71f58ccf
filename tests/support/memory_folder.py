"""A folder in memory for what tests write: a disk takes milliseconds for each flush, and a run asks for thousands."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path("/dev/shm")
_LEAST_BYTES = 4 << 30
"""Free there, and in all memory: far more than the tests of two processes need at a time."""


def memory_folder() -> str | None:
    """Return a folder in memory where programs may run, if this machine has enough memory."""
    try:
        found = os.statvfs(_FOLDER)
    except OSError:  # macOS has none
        return None
    if found.f_flag & (os.ST_RDONLY | os.ST_NOEXEC) or not os.access(_FOLDER, os.W_OK | os.X_OK):
        return None
    free = min(found.f_bavail * found.f_frsize, _available_bytes())
    return str(_FOLDER) if free >= _LEAST_BYTES else None


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kibibytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "0")
    return int(kibibytes) << 10
