# pathlib would double the start-up time of the guardian:
# ruff: noqa: PTH103, PTH110, PTH112, PTH120, PTH123, PTH208
"""Call the Linux kernel: namespaces, mounts, process attributes and ``/proc``."""

import _signal as signal  # type: ignore[import-not-found]  # "signal" imports enum: 6 ms of every start
import ctypes
import os
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38  # linux/prctl.h
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21  # linux/prctl.h, linux/capability.h
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000  # linux/sched.h
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 0x1000  # linux/mount.h
MS_REC, MS_SLAVE = 0x4000, 1 << 19
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
"""mount_setattr(2), which has the same number on every machine."""
OWN_FOLDER = b"mode=1777,size=1g"
"""Options of tmpfs(5) for a folder that programs of all users may write to."""
NOBODY = 65534
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
"""The number of clone(2) by machine, for the machines where the flags are its first argument."""

LINUX = sys.platform == "linux"
# PyDLL keeps the GIL during a call, so a child created by clone(2) finds the lock as its parent left it.
libc = ctypes.PyDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process (prctl(2))."""
    zero = ctypes.c_ulong(0)
    libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)


def clone(number: int, flags: int) -> int:
    """Fork into new namespaces; return the pid, 0 in the child, -1 when refused.

    ``unshare`` would move the guardian itself, which could not be undone when a later step is refused.
    """
    zero = ctypes.c_long(0)
    return int(libc.syscall(ctypes.c_long(number), ctypes.c_long(flags | signal.SIGCHLD), zero, zero, zero, zero))


def mount(source: bytes, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    """Mount a file system; raise ``OSError`` when the kernel refuses."""
    if libc.mount(source, target, kind, ctypes.c_ulong(flags), options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"mount {os.fsdecode(target)}")


def cover(covers: list[tuple[bytes, bytes]]) -> None:
    """Cover folders by empty ones, and put what is shown (``+``) back in its place; raise ``OSError`` when refused.

    Outer folders come first. What this process starts can remove none of them, and write only into its own (``~``).
    """
    items = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path, how in covers if how == b"+"}
    for path, how in covers:
        if how != b"+":
            mount(b"none", path, b"tmpfs", MS_NOSUID | MS_NODEV, OWN_FOLDER if how == b"~" else None)
            continue
        source = b"/proc/self/fd/%d" % items[path]
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC))
        mount(source, path, None, MS_BIND | MS_REC)
        os.close(items[path])
    for path, how in covers:
        if how == b"-":
            mount(b"none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN)


class MountAttributes(ctypes.Structure):
    """``struct mount_attr`` of mount_setattr(2)."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns"))


def allow_writing(folders: list[bytes]) -> None:
    """Make all file systems read-only but these folders; raise ``OSError`` when the kernel refuses."""
    for folder in folders:
        mount(folder, folder, None, MS_BIND)
    changes = [(b"/", AT_RECURSIVE, MountAttributes(set=MOUNT_ATTR_RDONLY))]
    changes += [(folder, 0, MountAttributes(clear=MOUNT_ATTR_RDONLY)) for folder in folders]
    for path, flags, attributes in changes:
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        number = ctypes.c_long(MOUNT_SETATTR)
        if libc.syscall(number, AT_FDCWD, path, ctypes.c_uint(flags), ctypes.byref(attributes), size) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), f"mount_setattr {os.fsdecode(path)}")
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def map_ids(user: int, group: int, *, as_root: bool) -> None:
    """Map only this user and group, each to itself (user_namespaces(7)); without ``as_root``, root to another user."""
    maps = [f"{number if number or as_root else NOBODY} {number} 1" for number in (user, group)]
    for name, text in zip(("setgroups", "uid_map", "gid_map"), ("deny", *maps), strict=True):
        handle = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def all_pids() -> list[int]:
    """Return every pid that ``/proc`` shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat_of(pid: int) -> list[str]:
    """Return the fields after the name in ``/proc/<pid>/stat``: state, parent, …; a missing process is dead (X)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except OSError:
        return ["X", "0"]


def state_of(pid: int) -> str:
    """Return the state letter of a process (proc(5))."""
    return stat_of(pid)[0]


def resident_bytes(pid: int) -> int:
    """Return how much memory a process occupies, shared pages included; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def share_bytes(pid: int) -> int:
    """Return what a process occupies, with its share of shared pages; as ``resident_bytes`` where that is unknown."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return resident_bytes(pid)


def children_of(pid: int) -> list[int]:
    """Return the children of ``pid``."""
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # a kernel without CONFIG_PROC_CHILDREN
        return [candidate for candidate in all_pids() if stat_of(candidate)[1] == str(pid)]
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:  # the process or thread has ended: its children now belong to the guardian
        pass
    return children


def send(pid: int, signum: int) -> None:
    """Signal a descendant that may be gone or may run as another user (setuid)."""
    try:
        os.kill(pid, signum)
    except (ProcessLookupError, PermissionError):
        return
