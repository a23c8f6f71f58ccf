"""What to run: a program with everything that its start needs, and what it may reach and use.

Every way to start one takes a ``Program``: ``children.start`` and ``children.run`` (guarded), ``unguarded`` (short and
trusted, or a worker). Nothing in it is bound to this machine but its paths.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from understudy.model.config.delegators import PROGRAM_FILE_BYTES, PROGRAM_PROCESSES, ProgramLimits
from understudy.model.confinement import Confinement
from understudy.model.errors import ErrorKind, UnderstudyError

FILE_CAP_BYTES = 32 * 1024 * 1024
"""How many bytes of a stream go into its log file."""
_THREADS_EACH = 4
"""Threads of a process on average; the kernel counts threads."""

_TOO_LARGE = re.compile(
    rb"\[Errno 27\]|\bEFBIG\b|\(os error 27\)|File size limit exceeded|^[a-z][\w.+-]*: .+: [Ff]ile too large$",
    re.MULTILINE,
)
"""How Python, node, Rust, shells, and the tools of the system and Go's programs report EFBIG."""
_LAST_WORDS = 4096
"""Bytes of the output of a failed program that say why it failed."""

Exceeded = Literal["", "memory", "processes", "file"]
"""The limit for which a program was ended."""


class Role(enum.StrEnum):
    """What a program is for; the value is its name in messages."""

    AGENT = "agent"
    COMMAND = "command"
    CHECK = "check"
    MUTANT = "test run of a mutant"
    SETUP = "setup command"
    TEST_WRITER = "test writer"
    UNDERSTUDY = "process of Understudy"


class Cover(enum.StrEnum):
    """What is done to a folder or another item; the value is for the guardian."""

    HIDE = "-"
    """It is an empty folder that nothing can be written to."""
    OWN = "~"
    """It is an empty folder of the program's own."""
    SHOW = "+"
    """It stays what it is, in a folder that does not."""


class AccessProfile(msgspec.Struct, frozen=True):
    """What a program needs of the machine. A level of isolation that cannot hold a restriction refuses the start.

    ``None`` is everything that the user may read or write: the programs then have the user's permissions.
    """

    role: Role
    writable: tuple[Path, ...] | None = None
    """The folders that it may change."""
    readable: tuple[Path, ...] | None = None
    """The folders that it may see."""
    hidden: tuple[Path, ...] = ()
    """Folders that it finds empty."""
    own: tuple[Path, ...] = ()
    """Folders of which it has its own: empty at first, limited in size, and gone when it ends."""
    shown: tuple[Path, ...] = ()
    """What it still finds in hidden folders and those of its own. A folder that is both is not shown."""
    network: bool = True
    """Whether it may use the network, that of this machine included."""

    @property
    def restricted(self) -> bool:
        """Whether it may do less than the user."""
        return (
            self.writable is not None or self.readable is not None or bool(self.hidden or self.own) or not self.network
        )

    def covers(self) -> list[tuple[Path, Cover]]:
        """Return the hidden folders, those of its own and what is shown in them, each before what is in it."""
        # An item that is a link is shown in its place, whatever it leads to. pathlib would raise where the user may not
        # look, and for what is too long for a path.
        shown = [item for item in self.shown if os.path.exists(item)]  # noqa: PTH110
        places = {Path(os.path.realpath(item.parent), item.name): Cover.SHOW for item in shown}
        for cover, folders in ((Cover.HIDE, self.hidden), (Cover.OWN, self.own)):
            places |= {Path(os.path.realpath(folder)): cover for folder in folders if os.path.isdir(folder)}  # noqa: PTH112
        covers: dict[Path, Cover] = {}
        for place, cover in sorted(places.items()):
            around = next((covers[parent] for parent in place.parents if parent in covers), Cover.SHOW)
            # What is hidden in an empty folder is not there.
            if (cover is Cover.SHOW) is not (around is Cover.SHOW):
                covers[place] = cover
        return list(covers.items())


OWN = AccessProfile(Role.UNDERSTUDY)
"""Understudy's own programs, and those of the user that Understudy asks something."""


class TreeLimits(msgspec.Struct, frozen=True):
    """What a program and all that it starts may use; 0: there is no limit."""

    memory_bytes: int = 0
    """Of all processes together, where there is ``/proc``. Looked at several times a second."""
    processes: int = 0
    """At the same time, where there is ``/proc``."""
    file_bytes: int = 0
    """Of each file that is written. A larger one cannot be: EFBIG, or the signal SIGXFSZ (setrlimit(2))."""
    each_process: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Limits of each process, by the names of setrlimit(2) without their prefix. Not the address space, unless the
    program is known: node, Go and Java reserve far more than they use, and sanitisers even more."""

    def rlimits(self) -> dict[str, int]:
        """Return what the kernel holds for each process, by the names of setrlimit(2) without their prefix."""
        limits = dict(self.each_process)
        if self.file_bytes:
            limits["FSIZE"] = self.file_bytes
        if self.processes and (running := _threads_of_machine()):
            # It counts all threads of the user, outside the tree too. So it only stops what grows between two looks.
            limits["NPROC"] = running + _THREADS_EACH * self.processes
        return limits


def limits_of(configured: ProgramLimits | None = None) -> TreeLimits:
    """Return the limits of a program; the defaults are beyond what honest programs use."""
    configured = configured or ProgramLimits()
    return TreeLimits(
        memory_bytes=configured.max_memory_bytes or memory_of_machine() * 3 // 4,
        processes=configured.max_processes or PROGRAM_PROCESSES,
        file_bytes=configured.max_file_bytes or PROGRAM_FILE_BYTES,
    )


class Program(msgspec.Struct, frozen=True):
    """A program to start: its argument vector, its folder, and its whole environment (see ``base_environment``)."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    access: AccessProfile
    mark: str = ""
    """The delegation, or whatever else its processes are found by."""
    stdin: bytes | None = None
    """What it reads, then the end of its input; None: ``/dev/null``."""
    keep_stdin: bool = False
    """Keep the input open after ``stdin``, as ``Child.stdin``."""
    terminal: tuple[int, int] | None = None
    """Rows and columns of a new terminal, which all three streams are; its input is ``Child.terminal``."""
    join_output: bool = False
    """Write errors to standard output, in the order in which they come."""
    stdout_log: Path | None = None
    """Output is also written to these files (mode 0600), up to a limit and then a marker."""
    stderr_log: Path | None = None
    log_cap_bytes: int = FILE_CAP_BYTES
    limits: TreeLimits = msgspec.field(default_factory=limits_of)
    confinement: Confinement = Confinement.NAMESPACE
    """The requested level; ``Child.sandbox`` has the one that was reached."""


def failed_at_file(program: Program, *outputs: bytes) -> bool:
    """Return whether the end of the output of a failed program says that a file would have been too large.

    The kernel tells only the program itself. Python and what it starts ignore the signal and get this error.
    """
    return program.limits.file_bytes > 0 and any(_TOO_LARGE.search(output[-_LAST_WORDS:]) for output in outputs)


def limit_error(program: Program, exceeded: Exceeded) -> UnderstudyError:
    """Return the error for a program that was ended because it exceeded a limit."""
    limits = program.limits
    what, key = {
        "memory": (
            f"used more than {limits.memory_bytes >> 20} MiB of memory with all its processes",
            "max_memory_bytes",
        ),
        "processes": (f"started more than {limits.processes} processes at once", "max_processes"),
        "file": (f"tried to write a file of more than {limits.file_bytes >> 20} MiB", "max_file_bytes"),
    }[exceeded or "memory"]
    return UnderstudyError(
        ErrorKind.RESOURCE_LIMIT,
        f"The {program.access.role} {program.argv[0]!r} {what}{'' if exceeded == 'file' else ', and was ended'}.",
        hint=f"If it needs that much, raise `{key}` under [programs] in your config.toml.",
    )


def memory_of_machine() -> int:
    """Return the bytes of memory that this machine has, or the container."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = 8 << 30
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2 and v1, as a container sees its own
        try:
            memory = min(memory, int(Path("/sys/fs/cgroup", name).read_text("ascii")))
        except (OSError, ValueError):
            continue
    return memory


def _threads_of_machine() -> int:
    """Return how many threads run on this machine; 0 where that is unknown."""
    try:
        return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
