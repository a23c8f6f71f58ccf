"""The system's own timer, which starts what schedules have due while nothing else has Understudy running."""

from __future__ import annotations

import os
import plistlib
import shlex
import sys
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.sanitize import one_line
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded

_SECONDS = 60.0
_LABEL = "dev.understudy.schedules"
_SERVICE = """[Unit]
Description=Start what Understudy's schedules have due

[Service]
Type=oneshot
ExecStart={command}
"""
_TIMER = """[Unit]
Description=Start what Understudy's schedules have due, every minute

[Timer]
OnCalendar=*-*-* *:*:00
AccuracySec=10s

[Install]
WantedBy=timers.target
"""
_KEPT = ("PATH", "UNDERSTUDY_CONFIG", "UNDERSTUDY_STATE")
"""Variables that the timer's program gets: a timer of the system has a short PATH, on which agents are not found."""


def planned() -> tuple[dict[Path, str], list[str]]:
    """Return the files of the timer, and the command that begins to use them; none for a line of crontab."""
    variables = [f"{name}={os.environ[name]}" for name in _KEPT if name in os.environ]
    program = ["/usr/bin/env", *variables, sys.executable, "-P", "-m", "understudy", "schedules", "run", "--due"]
    home = Path.home()
    if sys.platform == "darwin":
        place = home / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
        agent = {"Label": _LABEL, "ProgramArguments": program, "StartInterval": 60}
        return {place: plistlib.dumps(agent).decode()}, ["launchctl", "load", "-w", str(place)]
    command = shlex.join(program)
    if Path("/run/systemd/system").is_dir():
        folder = home / ".config" / "systemd" / "user"
        files = {
            folder / "understudy-schedules.service": _SERVICE.format(command=command.replace("%", "%%")),
            folder / "understudy-schedules.timer": _TIMER,
        }
        return files, ["systemctl", "--user", "enable", "--now", "understudy-schedules.timer"]
    return {Path("crontab"): f"* * * * * {command}".replace("%", r"\%")}, []


def install(files: dict[Path, str], command: list[str]) -> None:
    """Write the files and begin to use them; raise ``tool_crashed`` if that fails, and the errors of the disk."""
    for path, text in files.items():
        with durable.named_failures(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(path, text.encode(), mode=0o644)
    # systemctl finds the user's manager by variables that no other child gets.
    completed = run_unguarded(Program(command, Path.home(), dict(os.environ), OWN), timeout_seconds=_SECONDS)
    if completed.code != 0:
        output = one_line((completed.stderr or completed.stdout).decode("utf-8", "replace"))
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"`{shlex.join(command)}` failed: {output or 'it said nothing'}",
            hint="The files are written. Run the command yourself to see why.",
        )
