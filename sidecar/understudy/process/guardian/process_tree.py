"""Start, reap and kill everything in one process tree."""

import _signal as signal  # type: ignore[import-not-found]  # "signal" imports enum: 6 ms of every start
import errno
import os
import resource
import select
import time

from .linux import (
    LINUX,
    PR_SET_PDEATHSIG,
    all_pids,
    children_of,
    prctl,
    resident_bytes,
    send,
    share_bytes,
    state_of,
)

KILL_SECONDS = 10.0
"""How long to keep killing a tree; only a process blocked inside the kernel survives longer."""
LOOK_SECONDS = 0.1
"""How often the memory and the number of the processes are looked at, when they are near their limits."""
FAR_LOOK_SECONDS = 0.5
"""The same when they are below a quarter of their limits."""


class Call:
    """What to run, as the owner sent it; every field is bytes."""

    def __init__(self, frame: bytes) -> None:
        """Split a frame of ``encode_call``."""
        self.confinement, self.program, self.folder, memory, processes, read_only, network, *rest = frame.split(b"\0")
        self.read_only, self.network = bool(read_only), bool(network)
        groups: list[list[bytes]] = []
        for _ in range(4):
            count = int(rest[0])
            groups.append(rest[1 : count + 1])
            rest = rest[count + 1 :]
        rlimits, self.writable, covers, self.argv = groups
        self.covers = [(cover[1:], cover[:1]) for cover in covers]
        self.powerless = self.read_only or not self.network
        self.restricted = self.powerless or bool(covers)
        self.environment = dict(entry.split(b"=", 1) for entry in rest)
        self.rlimits = [(name.decode(), int(value)) for name, value in (entry.split(b"=") for entry in rlimits)]
        self.bounds = Bounds(
            int(memory), int(processes), limited_files=any(name == "FSIZE" for name, _ in self.rlimits)
        )


class Bounds:
    """What all processes of a tree may use together; 0: there is no limit."""

    def __init__(self, memory: int, processes: int, *, limited_files: bool) -> None:
        """Limit the memory in bytes, and the number of processes; where there is no ``/proc``, nothing."""
        self.memory = memory if LINUX else 0
        self.processes = processes if LINUX else 0
        self.limited_files = limited_files
        self.seconds = FAR_LOOK_SECONDS if self.memory or self.processes else 1.0
        """How long to wait until the next look."""

    def exceeded(self, tree: "NamespaceTree | DescendantTree") -> str:
        """Return which limit the tree exceeds: ``memory``, ``processes``, or an empty string."""
        if not self.memory and not self.processes:
            return ""
        living = tree.living()
        if self.processes and len(living) > self.processes:
            return "processes"
        used = sum(map(resident_bytes, living)) if self.memory else 0
        # Forked processes share pages, which that sum counts for each of them.
        if used > self.memory and sum(map(share_bytes, living)) > self.memory:
            return "memory"
        near = 4 * len(living) > self.processes > 0 or 4 * used > self.memory > 0
        self.seconds = LOOK_SECONDS if near else FAR_LOOK_SECONDS
        return ""

    def exceeded_by_file(self, status: int | None) -> bool:
        """Return whether a program ended because it, or what it waited for last, wrote too large a file."""
        if status is None or not self.limited_files:
            return False
        # A shell passes the signal of a program on as its own exit code.
        signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status) - 128
        return bool(signum == signal.SIGXFSZ)


class MainProgram:
    """The requested program: its pid, and its wait status once it has ended."""

    def __init__(self, pid: int) -> None:
        """Take a program that runs."""
        self.pid = pid
        self.status: int | None = None

    def reap(self) -> bool:
        """Reap every child that ended; return whether a child remains."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status


class NamespaceTree:
    """The processes of a PID namespace, as its init sees them: every process but the init."""

    def signal(self, signum: int) -> None:
        """Signal every process (kill(2): -1 excludes the caller and is limited to this namespace)."""
        try:
            os.kill(-1, signum)
        except ProcessLookupError:
            return

    def living(self) -> set[int]:
        """Return the pids that run besides the init."""
        return {pid for pid in all_pids() if pid != 1 and state_of(pid) not in "ZX"}

    def kill(self, program: MainProgram) -> int:
        """Kill every process and return how many there were."""
        killed = len(self.living())
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            self.signal(signal.SIGKILL)
            if not program.reap():
                break
            time.sleep(0.002)
        return killed


class DescendantTree:
    """The descendants of the guardian, found by walking ``/proc``: used where there is no namespace."""

    def __init__(self, program: MainProgram) -> None:
        """Store the program, whose process group is needed on macOS."""
        self.program = program

    def signal(self, signum: int) -> None:
        """Signal every descendant."""
        for pid in self.living():
            send(pid, signum)

    def living(self) -> set[int]:
        """Return every descendant that is not a zombie."""
        return self._walk(signum=0)

    def kill(self, program: MainProgram) -> int:
        """Stop all until no new one appears, kill all, and repeat until no child is left; return how many there were.

        The kernel restarts a fork that a signal interrupted, so the list of children of a stopped process is complete.
        Processes that are orphaned meanwhile become children of the guardian and are killed in the next round.
        """
        killed: set[int] = set()
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            stopped: set[int] = set()
            while time.monotonic() < deadline:
                new = self._walk(signal.SIGSTOP) - stopped
                if not new:
                    break
                stopped |= new
            for pid in stopped:
                send(pid, signal.SIGKILL)
            killed |= stopped
            if not program.reap() and not (stopped and not LINUX):
                break
            time.sleep(0.002)
        return len(killed)

    def _walk(self, signum: int) -> set[int]:
        """Signal every descendant before its children are listed (0: nothing is sent); return all but zombies."""
        if not LINUX:
            living = self._living_by_table()
            for pid in living:
                send(pid, signum)
            return living
        pids: set[int] = set()
        waiting = children_of(os.getpid())
        for pid in waiting:  # grows while it is walked: parents come before their children
            if pid not in pids:
                if state_of(pid) not in "ZX":
                    pids.add(pid)
                    send(pid, signum)
                waiting += children_of(pid)
        return pids

    def _living_by_table(self) -> set[int]:
        """Return the descendants and the program's process group from ``ps``: macOS has no ``/proc``."""
        read_end, write_end = os.pipe()
        argv = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
        pid = os.posix_spawn("/bin/ps", argv, {}, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)])
        os.close(write_end)
        with os.fdopen(read_end, "rb") as answer:
            rows = [line.split() for line in answer.read().splitlines()]
        os.waitpid(pid, 0)
        table = {int(row[0]): (int(row[1]), int(row[2])) for row in rows if not row[3].startswith(b"Z")}
        living = {process for process, (_, group) in table.items() if group == self.program.pid}
        while True:
            more = {
                process for process, (parent, _) in table.items() if parent in living or parent == os.getpid()
            } - living
            if not more:
                return living - {pid}
            living |= more


def launch(call: Call, control: int, *, reason: str, reached: str) -> MainProgram | None:
    """Start the program in a new session and report to the owner whether it started."""
    read_end, write_end = os.pipe()
    guardian = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        tell(control, f'{{"event":"failed","errno":{error.errno},"step":"fork"}}')
        return None
    if pid == 0:
        become(call, write_end, guardian, die_with_parent=LINUX and reached == "none")
    os.close(write_end)
    failure = os.read(read_end, 100).decode()
    os.close(read_end)
    if failure:
        os.waitpid(pid, 0)
        code, step = failure.split()
        tell(control, f'{{"event":"failed","errno":{code},"step":"{step}"}}')
        return None
    tell(control, f'{{"event":"started","reached":"{reached}","reason":"{reason}"}}')
    return MainProgram(pid)


def become(call: Call, failure: int, guardian: int, *, die_with_parent: bool) -> None:
    """Turn this process into the program; on failure write errno and step, and exit."""
    step = "exec"
    try:
        os.setsid()
        if os.isatty(0):  # its controlling terminal, for signals, /dev/tty and changes of the size
            take_terminal()
        if die_with_parent:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guardian:  # the guardian died before the line above
                os._exit(127)
        signal.set_wakeup_fd(-1)
        for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_DFL)  # an ignored signal stays ignored through exec (signal(7))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        step = "chdir"
        os.chdir(call.folder)
        set_limits(call.rlimits)
        step = "exec"
        os.execve(call.program, call.argv, call.environment)  # noqa: S606 - no shell is intended
    except OSError as error:
        os.write(failure, f"{error.errno} {step}".encode())
    except BaseException:
        os.write(failure, f"{errno.EINVAL} {step}".encode())
    finally:
        os._exit(127)


def set_limits(limits: list[tuple[str, int]]) -> None:
    """Limit this process and what it starts (setrlimit(2)), as far as the system knows and allows each limit."""
    for name, value in limits:
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        hard = resource.getrlimit(number)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(number, (limit, limit))
        except (OSError, ValueError):  # macOS refuses some of them
            continue


def take_terminal() -> None:
    """Make the terminal on standard input the controlling one of this new session (tty_ioctl(4))."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def supervise(
    program: MainProgram,
    tree: NamespaceTree | DescendantTree,
    control: int,
    wake: int,
    *,
    bond: int | None,
    bounds: Bounds,
) -> None:
    """Reap and follow the owner's commands; at the end, or beyond the bounds, kill what still runs, and report."""
    waiter = select.poll()
    for descriptor in (control, wake, *([] if bond is None else [bond])):
        waiter.register(descriptor, select.POLLIN)
    commands, deadline, exceeded, next_look = b"", None, "", time.monotonic() + LOOK_SECONDS
    while True:
        any_child = program.reap()
        if program.status is not None and (deadline is None or not any_child):
            break
        if deadline is not None and time.monotonic() >= deadline:
            break
        rest = max(0.0, (next_look if deadline is None else min(deadline, next_look)) - time.monotonic())
        ready = dict(waiter.poll(int(rest * 1000) + 1))
        drain(wake)
        if time.monotonic() >= next_look:
            exceeded = bounds.exceeded(tree)
            if exceeded:
                break
            next_look = time.monotonic() + bounds.seconds
        if bond in ready or Shutdown.requested:
            break
        if control in ready:
            received = receive(control)
            if not received:
                break
            commands += received
            *lines, commands = commands.split(b"\n")
            for line in lines:
                grace = int(line[1:]) / 1000
                if deadline is None and grace:
                    tree.signal(signal.SIGTERM)
                    tree.signal(signal.SIGCONT)  # a stopped process handles a signal only after it continues
                asked_deadline = time.monotonic() + grace
                deadline = asked_deadline if deadline is None else min(asked_deadline, deadline)
    had_ended = program.status is not None
    killed = tree.kill(program)
    status = program.status
    code = signum = "null"
    if status is not None:
        code = str(os.WEXITSTATUS(status)) if os.WIFEXITED(status) else code
        signum = str(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else signum
    leftovers = killed if had_ended else max(0, killed - 1)
    if had_ended and not exceeded and bounds.exceeded_by_file(status):
        exceeded = "file"
    tell(
        control,
        f'{{"event":"ended","code":{code},"signal":{signum},"leftovers":{leftovers},"exceeded":"{exceeded}"}}',
    )


class Shutdown:
    """Whether a signal asked the guardian itself to end."""

    requested = False


def watch_signals() -> int:
    """Return a descriptor that becomes readable when a child ends or a signal asks the guardian to end."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: setattr(Shutdown, "requested", True))
    return wake_read


def receive(control: int, size: int = 4096) -> bytes:
    """Read from the owner; return ``b""`` when it is gone."""
    try:
        return os.read(control, size)
    except OSError:
        return b""


def tell(control: int, record: str) -> None:
    """Write one record to the owner, unless it is gone."""
    try:
        os.write(control, record.encode() + b"\n")
    except OSError:
        return


def drain(descriptor: int) -> None:
    """Empty a non-blocking pipe."""
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        return


def close_standard_streams() -> None:
    """Close the program's pipes here, so that they end when the program closes them."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
