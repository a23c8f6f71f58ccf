"""The system's own timer, which starts what schedules have due while nothing else has Understudy running."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.sanitize import one_line
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded

_SECONDS = 60.0
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
_PLIST = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>dev.understudy.schedules</string>
<key>ProgramArguments</key><array>{arguments}</array>
<key>StartInterval</key><integer>60</integer>
</dict></plist>
"""


def planned() -> tuple[dict[Path, str], list[str]]:
    """Return the files of the timer, and the command that begins to use them; none for a line of crontab."""
    program = [sys.executable, "-P", "-m", "understudy", "schedules", "run", "--due"]
    home = Path.home()
    if sys.platform == "darwin":
        place = home / "Library" / "LaunchAgents" / "dev.understudy.schedules.plist"
        arguments = "".join(f"<string>{word}</string>" for word in program)
        return {place: _PLIST.format(arguments=arguments)}, ["launchctl", "load", "-w", str(place)]
    if Path("/run/systemd/system").is_dir():
        folder = home / ".config" / "systemd" / "user"
        files = {
            folder / "understudy-schedules.service": _SERVICE.format(command=shlex.join(program)),
            folder / "understudy-schedules.timer": _TIMER,
        }
        return files, ["systemctl", "--user", "enable", "--now", "understudy-schedules.timer"]
    return {Path("crontab"): f"* * * * * {shlex.join(program)}"}, []


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
