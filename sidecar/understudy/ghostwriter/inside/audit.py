"""Refuse what code under test must not do while it is called with invented arguments.

An audit hook is not a sandbox: code can catch the refusal, and some functions raise no event. So refusals are counted,
functions without an event are replaced, and the whole process is confined where the machine allows it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

TICKS = {signal.ITIMER_PROF: (0.1, 3), signal.ITIMER_REAL: (1.0, 4)}
"""Limits of one evaluation: seconds of a tick, and the ticks that it may see. The first clock counts CPU time, so that
a busy machine does not look like an endless loop."""

REFUSED_EVENTS = (
    *(
        "subprocess.",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.fork",
        "pty.",
        "os.kill",
    ),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate"),
    *("os.putenv", "os.unsetenv", "os.utime", "os.chdir", "os.listdir", "os.scandir", "os.walk", "os.chflags"),
    *(
        "os.setxattr",
        "os.removexattr",
        "os.lockf",
        "fcntl.",
        "socket.",
        "signal.",
        "shutil.",
        "tempfile.",
        "webbrowser.",
    ),
    *("ctypes.", "urllib.", "http.", "ftplib.", "smtplib.", "imaplib.", "poplib.", "telnetlib.", "nntplib.", "syslog."),
    *(
        "sqlite3.",
        "dbm.",
        "mmap.",
        "glob.glob",
        "pathlib.Path.glob",
        "time.sleep",
        "builtins.input",
        "resource.",
        "pty.",
    ),
    *("_thread.start", "sys.addaudithook", "sys.settrace", "sys.setprofile"),
)
WITHOUT_EVENT = {
    "os": ("_exit", "abort", "mkfifo", "mknod", "close", "dup2", "write", "fork", "kill", "killpg", "nice", "umask"),
    "signal": ("raise_signal", "pthread_kill", "alarm", "setitimer"),
    "time": ("sleep",),
}
"""Functions that raise no audit event, at least in some versions of Python."""


class Refused(BaseException):
    """Not an ``Exception``, so that ``except Exception`` in the code under test does not catch it."""


class TooSlow(BaseException):
    """The evaluation exceeded its limit."""


class Guard:
    """The state of the audit hook."""

    def __init__(self, readable: list[str]) -> None:
        """Allow reads below the folders ``readable`` only."""
        self.on = False
        self.count = 0
        self.events: set[str] = set()
        self.readable = tuple(os.path.join(os.path.realpath(path), "") for path in readable if path)
        self._setitimer = signal.setitimer
        self._serial = 0
        self._seen = {signal.SIGPROF: (0, 0), signal.SIGALRM: (0, 0)}

    def install(self) -> None:
        """Install the hook, the replacements and the signal handlers for good."""
        sys.addaudithook(self._hook)
        for module, names in WITHOUT_EVENT.items():
            loaded = sys.modules.get(module) or __import__(module)
            for name in names:
                if hasattr(loaded, name):
                    setattr(loaded, name, self._replacement(getattr(loaded, name), f"{module}.{name}"))
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, self._tick)

    def start_clocks(self) -> None:
        """Start the clocks of this process, once for all evaluations: a system call for each would cost more."""
        for clock, (seconds, _) in TICKS.items():
            self._setitimer(clock, seconds, seconds)

    def start(self) -> None:
        """Refuse from now on."""
        self._serial += 1
        self.on = True

    def stop(self) -> None:
        """Allow everything again."""
        self.on = False

    def _tick(self, number: int, _: Any) -> None:
        if not self.on:
            return
        serial, count = self._seen[signal.Signals(number)]
        count = count + 1 if serial == self._serial else 1
        self._seen[signal.Signals(number)] = (self._serial, count)
        clock = signal.ITIMER_PROF if number == signal.SIGPROF else signal.ITIMER_REAL
        if count >= TICKS[clock][1]:
            raise TooSlow

    def refuse(self, event: str) -> None:
        """Record the event and raise."""
        self.count += 1
        self.events.add(event)
        raise Refused(event)

    def _replacement(self, real: Any, name: str) -> Any:
        def guarded(*arguments: Any, **keywords: Any) -> Any:
            if self.on:
                self.refuse(name)
            return real(*arguments, **keywords)

        return guarded

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            if not self._may_open(*arguments):
                self.refuse("open")
        elif event.startswith(REFUSED_EVENTS):
            self.refuse(event)

    def _may_open(self, path: Any, mode: Any, flags: Any) -> bool:
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if (
            writes
            or (isinstance(mode, str) and set(mode) & set("wax+"))
            or not isinstance(path, (str, bytes, os.PathLike))
        ):
            return False
        return os.path.realpath(os.fsdecode(path)).startswith(self.readable)
