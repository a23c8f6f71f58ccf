"""Look at a delegation whose worker is killed: its processes, and the ends in its journal."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from understudy.journal import delegation_folder

GRACE_SECONDS = 60.0
"""How long workers and killed processes may take to be gone."""


def ends(events: list[Any]) -> list[Any]:
    """Return the terminal events."""
    return [event for event in events if type(event).__struct_config__.tag == "finished"]


def holders(identifier: str) -> list[int]:
    """Return the worker of a delegation, then its children, as its lock names them."""
    try:
        holder = json.loads(delegation_folder.open_folder(identifier).lock.read_bytes())
    except ValueError:
        return []
    return [holder["pid"], *(child["pid"] for child in holder.get("children", []))]


def kill(pid: int, identifier: str) -> bool:
    """Send SIGKILL if the process is a worker or guardian of the delegation; return whether it was.

    A worker that was started in advance has no id in its arguments.
    """
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if identifier.encode() in line or b"guardian" in line:
            os.kill(pid, signal.SIGKILL)
            return True
    except OSError:
        pass
    return False


def processes_of(state: str) -> list[str]:
    """Return what still runs for a state folder, after a short grace for workers on their way out."""
    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if (
                    f"UNDERSTUDY_STATE={state}".encode() in (entry / "environ").read_bytes().split(b"\0")
                    or state.encode() in (entry / "cmdline").read_bytes()
                    or os.readlink(entry / "fd" / "2").startswith(state)  # the log of a worker that was forked
                ):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
