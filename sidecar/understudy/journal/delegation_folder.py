"""Where delegations live, and how the folder of one is born, found and opened.

``<state>/delegations/<id>/`` holds one delegation, ``<state>/keys/`` what idempotency keys came to.
``<state>`` is ``$UNDERSTUDY_STATE``, else the platform's state folder + ``understudy``, on a local
disk: flock, atomic renames and byte offsets are not dependable on network file systems.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from understudy.journal import disk
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.spec import Spec, initial
from understudy.model.wire import ready

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
"""Base 32 in ASCII order ("base32hex"), so that ids sort by time as text."""

_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-v]{5}", re.ASCII)

_UNBORN = ".new-"
"""What the names of folders that are still being made begin with; no id does."""

_SPEC_LIMIT = 64 * 1024 * 1024
_ABANDONED_SECONDS = 3600.0

_MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs"),
        *("glusterfs", "davfs", "davfs2", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs"),
        *("fuse.rclone", "fuse.davfs", "fuse.davfs2", "fuse.curlftpfs", "fuse.gcsfuse", "fuse.goofys", "fuse.juicefs"),
        *("fuse.afp", "fuse.smbnetfs", "fuse.kio-fuse", "fuse.gvfsd-fuse", "fuse.blobfuse", "fuse.blobfuse2"),
    }
)
"""File systems, as mountinfo spells them (proc(5)), whose other end is another machine."""


class Folder(msgspec.Struct, frozen=True):
    """One delegation's folder and the files in it (some come into being later)."""

    id: str
    path: Path

    @property
    def spec(self) -> Path:
        """What was asked; written once, before the folder can be seen."""
        return self.path / "spec.json"

    @property
    def buffers(self) -> Path:
        """Folder of the texts that differ from disk."""
        return self.path / "buffers"

    @property
    def events(self) -> Path:
        """The journal."""
        return self.path / "events.jsonl"

    @property
    def summary(self) -> Path:
        """The ``Delegation`` after the last event, or at most one second older."""
        return self.path / "summary.json"

    @property
    def control(self) -> Path:
        """What faces ask of the worker."""
        return self.path / "control.jsonl"

    @property
    def prompt(self) -> Path:
        """The prompt as it was handed over."""
        return self.path / "prompt.md"

    @property
    def review(self) -> Path:
        """The result as a diff."""
        return self.path / "review.diff"

    @property
    def stdout(self) -> Path:
        """The agent's raw output."""
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        """The agent's raw error output."""
        return self.path / "stderr.log"

    @property
    def lock(self) -> Path:
        """The flock whose holder may append; its content says who that is."""
        return self.path / "lock"

    @property
    def reserve(self) -> Path:
        """A few blocks held back while a worker lives, given up so that the end still fits on a full disk."""
        return self.path / "reserve"


def state_root() -> Path:
    """Return ``<state>``, made 0700 where it was missing.

    Raises ``store_unavailable`` when it belongs to somebody else, others may write in it, or it is on a
    network file system; ``store_full`` when it cannot be made for want of room.
    """
    configured = os.environ.get("UNDERSTUDY_STATE")
    if configured:
        path = Path(configured).expanduser()
        if not path.is_absolute():
            raise UnderstudyError(
                ErrorKind.STORE_UNAVAILABLE,
                f"UNDERSTUDY_STATE is {configured!r}, which is no absolute path.",
                hint="Set it to an absolute path on a local disk, or unset it.",
            )
    else:
        import platformdirs  # noqa: PLC0415 - not needed where the variable is set

        path = Path(platformdirs.user_state_dir("understudy", appauthor=False))
    with disk.named_failures(path):
        path.mkdir(mode=disk.PRIVATE_FOLDER, parents=True, exist_ok=True)
        found = path.stat()
    if found.st_uid != os.geteuid():
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"The state folder {path} belongs to user {found.st_uid}, not to you.",
            hint="Set UNDERSTUDY_STATE to a folder of your own.",
        )
    if found.st_mode & 0o022:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"Others may write in the state folder {path}.",
            hint=f"Run `chmod go-w {path}`, or set UNDERSTUDY_STATE to a folder of your own.",
        )
    kind = _file_system(os.path.realpath(path))
    if kind in NETWORK_FILE_SYSTEMS:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"The state folder {path} is on a network file system ({kind}), where locks are not dependable.",
            hint="Set UNDERSTUDY_STATE to a folder on a local disk.",
        )
    return path


def delegations_root() -> Path:
    """Return ``<state>/delegations``, made where it was missing."""
    return _subfolder("delegations")


def new_id(now: float | None = None) -> str:
    """Return an id such as ``20261121-004512-k3f9q``: UTC, then the millisecond (two digits) and chance (three).

    ``now`` is in seconds since the epoch. Ids sort by age as text, down to the millisecond.
    """
    moment = time.time() if now is None else now
    seconds = int(moment)
    part = int((moment - seconds) * 1000)
    chance = secrets.randbelow(32**3)
    number = part << 15 | chance
    tail = "".join(_DIGITS[number >> shift & 31] for shift in (20, 15, 10, 5, 0))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}-{tail}"


def is_id(text: str) -> bool:
    """Tell whether ``text`` has the shape of an id; only then it may become part of a path."""
    return _ID.fullmatch(text) is not None


def create(build: Callable[[str], Spec], buffers: Mapping[str, bytes]) -> tuple[Folder, int]:
    """Make the folder of a new delegation, its lock held; return it and the descriptor that holds the lock.

    ``build`` gets the id and returns the specification; it may be called again with another id when the
    first is taken. ``buffers`` maps file names (no folders) to bytes. The folder is made under a hidden name
    and appears complete and locked, in one rename; a name that is taken is refused by the kernel, because
    no folder of a delegation is empty. The descriptor is close-on-exec: hand it to the worker explicitly,
    then close it here. On any failure nothing is left. Raises ``store_full``, ``store_unavailable``.
    """
    folder, descriptor = _create(build, buffers, key=None)
    if descriptor is None:  # only a key can be somebody else's
        raise UnderstudyError(ErrorKind.INTERNAL, "A delegation without a key was not created.")
    return folder, descriptor


def create_once(key: str, build: Callable[[str], Spec], buffers: Mapping[str, bytes]) -> tuple[Folder, int | None]:
    """Like ``create``, but at most once per ``key``: later callers get the first one's folder and no descriptor.

    Claim and birth happen under one flock, so of two processes one creates and the other gets its folder, and a
    claim whose process died in between is void.
    """
    return _create(build, buffers, key=key)


def open_folder(delegation_id: str) -> Folder:
    """Return the folder of a delegation; ``unknown_delegation`` (with near ids) when there is none."""
    root = delegations_root()
    if is_id(delegation_id) and (root / delegation_id).is_dir():
        return Folder(delegation_id, root / delegation_id)
    raise _unknown(delegation_id)


def ids() -> list[str]:
    """Return all ids, newest first."""
    root = delegations_root()
    with disk.named_failures(root):
        names = os.listdir(root)  # noqa: PTH208 - ten thousand Path objects would cost more than the listing
    names.sort(reverse=True)
    matches = _ID.fullmatch
    return [name for name in names if matches(name)]


def resolve_id(prefix: str) -> str:
    """Return the one id that begins with ``prefix``, or ends in ``-prefix``; else ``unknown_delegation``.

    ``names`` of the error lists candidates when there are several.
    """
    if is_id(prefix):
        return open_folder(prefix).id
    if not prefix or not re.fullmatch(r"[0-9a-v-]{1,21}", prefix, re.ASCII):
        raise _unknown(prefix)
    everything = ids()
    found = [name for name in everything if name.startswith(prefix)]
    found = found or [name for name in everything if name.endswith("-" + prefix)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise _unknown(prefix)
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"{len(found)} delegations fit {prefix!r}.",
        hint="Give more of the id.",
        names=found[:5],
    )


def read_spec(folder: Folder) -> Spec:
    """Return what a delegation was asked to be; ``store_unavailable`` when the file cannot be read or understood."""
    with disk.named_failures(folder.spec):
        data = disk.read_whole(folder.spec, _SPEC_LIMIT)
    try:
        spec = msgspec.json.decode(data, type=ready(Spec))
        if spec.id != folder.id:
            raise msgspec.ValidationError(f"it is of delegation {spec.id[:64]}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{folder.spec} cannot be understood: {error}.",
            hint="It was written by another version or damaged; the delegation can only be read as files.",
        ) from error
    return spec


def remove_abandoned() -> int:
    """Remove folders whose maker died before they could be seen (an hour old, lock free); return how many."""
    root = delegations_root()
    removed = 0
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.name.startswith(_UNBORN) or not entry.is_dir(follow_symlinks=False):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime < _ABANDONED_SECONDS:
                continue
            shutil.rmtree(entry.path, ignore_errors=True)
            removed += 1
    return removed


def _create(
    build: Callable[[str], Spec], buffers: Mapping[str, bytes], *, key: str | None
) -> tuple[Folder, int | None]:
    root = delegations_root()
    for name in buffers:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise UnderstudyError(ErrorKind.INTERNAL, f"{name!r} cannot be the name of a buffer.")
    if key is not None and (claimed := _claimed(_key_file(key))) is not None:
        return claimed, None
    unborn = Folder("", root / f"{_UNBORN}{os.getpid()}-{secrets.token_hex(8)}")
    descriptor = -1
    born = False
    try:
        with disk.named_failures(root):
            unborn.path.mkdir(mode=disk.PRIVATE_FOLDER)
            descriptor = disk.open_regular(unborn.lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unborn.buffers.mkdir(mode=disk.PRIVATE_FOLDER)
            for name, data in buffers.items():
                disk.create(unborn.buffers / name, data)
            if key is None:
                folder = _bear(root, unborn, build, None)
            else:
                with _keys_locked():
                    claimed = _claimed(_key_file(key))
                    if claimed is not None:
                        return claimed, None
                    folder = _bear(root, unborn, build, _key_file(key))
            born = True
            return folder, descriptor
    finally:
        if not born:
            if descriptor >= 0:
                os.close(descriptor)
            shutil.rmtree(unborn.path, ignore_errors=True)


def _bear(root: Path, unborn: Folder, build: Callable[[str], Spec], key_file: Path | None) -> Folder:
    """Complete an unborn folder and let it be seen under an id of its own."""
    while True:
        delegation_id = new_id()
        spec = build(delegation_id)
        disk.create(unborn.spec, msgspec.json.encode(spec), sync=True)
        disk.create(unborn.summary, msgspec.json.encode(initial(spec)))
        if (root / delegation_id).exists():
            continue
        if key_file is not None:
            disk.replace(key_file, delegation_id.encode())
        try:
            unborn.path.rename(root / delegation_id)
        except FileExistsError:
            continue
        except OSError as error:
            if (root / delegation_id).exists():  # "not empty": somebody was quicker
                continue
            raise error from None
        return Folder(delegation_id, root / delegation_id)


def _key_file(key: str) -> Path:
    return _subfolder("keys") / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _claimed(key_file: Path) -> Folder | None:
    """Return the folder that a key stands for, when there is one and it was born."""
    try:
        delegation_id = disk.read_whole(key_file, 64).decode("ascii", "replace")
    except FileNotFoundError:
        return None
    path = delegations_root() / delegation_id
    return Folder(delegation_id, path) if is_id(delegation_id) and path.is_dir() else None


@contextlib.contextmanager
def _keys_locked():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    path = _subfolder("keys") / ".lock"
    descriptor = disk.open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        disk.flock_within(descriptor, 10.0, path)
        yield
    finally:
        os.close(descriptor)


def _subfolder(name: str) -> Path:
    path = state_root() / name
    with disk.named_failures(path):
        path.mkdir(mode=disk.PRIVATE_FOLDER, exist_ok=True)
    return path


def _unknown(asked: str) -> UnderstudyError:
    names: list[str] = []
    if len(asked) <= 64:
        import difflib  # noqa: PLC0415 - only an error needs it

        # A person mistypes what they saw lately; comparing with everything would take seconds.
        names = difflib.get_close_matches(asked, ids()[:500], n=3, cutoff=0.75)
    return UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"There is no delegation {asked[:64]!r}.",
        hint="`understudy list` shows the ids.",
        names=names or None,
    )


@functools.lru_cache(maxsize=8)
def _file_system(real_path: str) -> str | None:
    """Return the type of the file system that holds ``real_path``; None where the platform does not say."""
    try:
        table = _MOUNTINFO.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    best, kind = -1, None
    for line in table.splitlines():
        # proc(5): id parent major:minor root mount-point options [optional…] - type source options
        fields, _, rest = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not rest:
            continue
        mount_point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), parts[4])
        below = mount_point if mount_point.endswith("/") else mount_point + "/"
        # A later mount on the same point hides the earlier one.
        if (real_path + "/").startswith(below) and len(below) >= best:
            best, kind = len(below), rest.split(" ", 1)[0]
    return kind
