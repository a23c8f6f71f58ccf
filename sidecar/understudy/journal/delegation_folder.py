"""Find the folder of all state, and create, find and open the folders of delegations in it.

``<state>/delegations/<id>/`` holds one delegation; ``<state>/keys/`` maps idempotency keys to delegations.
``<state>`` is ``$UNDERSTUDY_STATE``, else the platform's state folder + ``understudy``. It must be on a local disk:
flock, atomic renames and byte offsets are not reliable on network file systems.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.model.delegation.spec import Spec, decode, initial
from understudy.model.errors import ErrorKind, UnderstudyError

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
"""Base 32 in ASCII order ("base32hex"), so that ids sort by time as text."""
_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-v]{5}", re.ASCII)
_LOG = re.compile(r"std(?:out|err)(?:\.([0-9]+))?\.log", re.ASCII)
"""The logs of an agent's program: ``stdout.log``, then ``stdout.2.log``."""
_UNBORN = ".new-"
"""The prefix of folders that are still being created; no id begins with it."""
_SPEC_LIMIT = 64 * 1024 * 1024
_ABANDONED_SECONDS = 3600.0
MOUNTINFO = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs"),
        *("glusterfs", "davfs", "davfs2", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs"),
        *("fuse.rclone", "fuse.davfs", "fuse.davfs2", "fuse.curlftpfs", "fuse.gcsfuse", "fuse.goofys", "fuse.juicefs"),
        *("fuse.afp", "fuse.smbnetfs", "fuse.kio-fuse", "fuse.gvfsd-fuse", "fuse.blobfuse", "fuse.blobfuse2"),
    }
)
"""Network file systems, as named in mountinfo (proc(5))."""
STATE_VERSION = 1
"""Version of the layout of ``<state>``, in ``<state>/version``."""


class Folder(msgspec.Struct, frozen=True):
    """One delegation's folder and the files in it (some are created later)."""

    id: str
    path: Path

    @property
    def spec(self) -> Path:
        """The specification; written once, before the folder becomes visible."""
        return self.path / "spec.json"

    @property
    def buffers(self) -> Path:
        """The folder of editor buffers that differ from the files on disk."""
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
        """Requests of frontends to the worker."""
        return self.path / "requests.jsonl"

    @property
    def prompt(self) -> Path:
        """The prompt, as the agent received it."""
        return self.path / "prompt.md"

    @property
    def checkout(self) -> Path:
        """What was in the user's checkout when an agent started to work there; exists only if one did."""
        return self.path / "checkout.json"

    @property
    def review(self) -> Path:
        """The result as a diff."""
        return self.path / "review.diff"

    @property
    def stdout(self) -> Path:
        """The agent's raw standard output."""
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        """The agent's raw standard error."""
        return self.path / "stderr.log"

    def logs(self) -> list[tuple[int, Path]]:
        """Return the logs of the agent's attempts, by number: each attempt after the first has its own."""
        logs = [
            (int(match[1] or "1"), path)
            for path in self.path.glob("std*.log")
            if (match := _LOG.fullmatch(path.name)) is not None
        ]
        return sorted(logs)

    @property
    def lock(self) -> Path:
        """The file whose flock the writer of the journal holds; its content identifies the holder."""
        return self.path / "lock"

    @property
    def reserve(self) -> Path:
        """A few blocks reserved while a worker runs, released so that its end can still be written to a full disk."""
        return self.path / "reserve"

    @property
    def refused(self) -> Path:
        """An empty file, which a full disk still has room for: the start was refused, so it must not run later."""
        return self.path / "refused"


def delegations_root() -> Path:
    """Return ``<state>/delegations``; create it if it is missing."""
    return _subfolder("delegations")


_NEXT_ID_SECONDS = 0.000_02
"""Two ids whose times are so far apart differ in their time, whatever a float loses."""


def new_id(now: float | None = None) -> str:
    """Return an id such as ``20261121-004512-k3f9q``: UTC, hundred-thousandths of a second, and a random number < 256.

    ``now`` is in seconds since the epoch. Ids sort by age as text, so the queue serves them in the order of the starts.
    """
    moment = time.time() if now is None else now
    seconds = int(moment)
    number = int((moment - seconds) * 100_000) << 8 | os.urandom(1)[0]
    tail = "".join(_DIGITS[number >> shift & 31] for shift in (20, 15, 10, 5, 0))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}-{tail}"


def new_ids(count: int) -> list[str]:
    """Return different ids for delegations that refer to each other, in the order in which the queue serves them."""
    now = time.time()
    return [new_id(now + number * _NEXT_ID_SECONDS) for number in range(count)]


def is_id(text: str) -> bool:
    """Return whether ``text`` has the form of an id; only then may it become part of a path."""
    return _ID.fullmatch(text) is not None


def create(
    build: Callable[[str], Spec], buffers: Mapping[str, bytes], *, identifier: str | None = None
) -> tuple[Folder, int]:
    """Create the folder of a new delegation and lock it; return it and the descriptor that holds the lock.

    ``build`` gets the id and returns the specification; it is called again with another id if the first one is taken.
    With ``identifier`` (see ``new_ids``) it gets this id; if that is taken, this raises ``conflict``.
    ``buffers`` maps file names (without folders) to bytes. The folder is created under a hidden name and then renamed,
    so it appears complete and locked; the kernel refuses a name that is taken, because no delegation's folder is empty.
    The descriptor is close-on-exec: pass it to the worker explicitly, then close it. On any failure the folder is
    removed. Raises ``disk_full``, ``state_unavailable``.
    """
    folder, descriptor = _create(build, buffers, key=None, identifier=identifier)
    if descriptor is None:  # only with a key could another process have created it
        raise UnderstudyError(ErrorKind.INTERNAL, "A delegation without a key was not created.")
    return folder, descriptor


def create_once(key: str, build: Callable[[str], Spec], buffers: Mapping[str, bytes]) -> tuple[Folder, int | None]:
    """Do as ``create``, but at most once per ``key``: later callers get the first one's folder and no descriptor.

    The key is claimed and the folder created under one flock, so of two processes one creates the folder and the
    other gets it, and a claim whose process died in between is void.
    """
    return _create(build, buffers, key=key)


def open_folder(delegation_id: str) -> Folder:
    """Return the folder of a delegation; raise ``unknown_delegation`` (with similar ids) when there is none."""
    root = delegations_root()
    if is_id(delegation_id) and (root / delegation_id).is_dir():
        return Folder(delegation_id, root / delegation_id)
    raise _unknown(delegation_id)


def ids() -> list[str]:
    """Return all ids, newest first."""
    root = delegations_root()
    with durable.named_failures(root):
        names = os.listdir(root)  # noqa: PTH208 - ten thousand Path objects would cost more than the listing
    names.sort(reverse=True)
    matches = _ID.fullmatch
    return [name for name in names if matches(name)]


def resolve_id(prefix: str) -> str:
    """Return the one id that begins with ``prefix``, or ends in ``-prefix``; else raise ``unknown_delegation``.

    When there are several, ``names`` of the error lists them.
    """
    if is_id(prefix):
        return open_folder(prefix).id
    if not prefix or not re.fullmatch(r"[0-9a-v-]{1,21}", prefix, re.ASCII):
        raise _unknown(prefix)
    everything = ids()
    matches = [name for name in everything if name.startswith(prefix)]
    matches = matches or [name for name in everything if name.endswith("-" + prefix)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise _unknown(prefix)
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"{len(matches)} delegations match {prefix!r}.",
        hint="Type more of the ID.",
        names=matches[:5],
    )


def read_spec(folder: Folder) -> Spec:
    """Return the specification of a delegation; raise ``state_unavailable`` when it cannot be read or decoded."""
    with durable.named_failures(folder.spec):
        data = durable.read_whole(folder.spec, _SPEC_LIMIT)
    try:
        spec = decode(data)
        if spec.id != folder.id:
            raise msgspec.ValidationError(f"it belongs to delegation {spec.id[:64]}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{folder.spec} cannot be decoded: {error}.",
            hint="Another version wrote it, or it is damaged. You can still open the delegation's files.",
        ) from error
    return spec


def remove_abandoned() -> int:
    """Remove hidden folders whose process died while creating them (an hour old, not locked); return how many."""
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
    build: Callable[[str], Spec], buffers: Mapping[str, bytes], *, key: str | None, identifier: str | None = None
) -> tuple[Folder, int | None]:
    root = delegations_root()
    for name in buffers:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise UnderstudyError(ErrorKind.INTERNAL, f"{name!r} is not a valid name of a buffer.")
    if key is not None and (claimed := _claimed(key_file(key))) is not None:
        return claimed, None
    unborn = Folder("", root / f"{_UNBORN}{os.getpid()}-{os.urandom(8).hex()}")
    descriptor = -1
    born = False
    try:
        with durable.named_failures(root):
            unborn.path.mkdir(mode=durable.PRIVATE_FOLDER)
            descriptor = durable.open_regular(unborn.lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unborn.buffers.mkdir(mode=durable.PRIVATE_FOLDER)
            for name, data in buffers.items():
                durable.create(unborn.buffers / name, data)
            if key is None:
                folder = _publish(root, unborn, build, None, identifier)
            else:
                with _keys_locked():
                    claimed = _claimed(key_file(key))
                    if claimed is not None:
                        return claimed, None
                    folder = _publish(root, unborn, build, key_file(key))
            born = True
            return folder, descriptor
    finally:
        if not born:
            if descriptor >= 0:
                os.close(descriptor)
            shutil.rmtree(unborn.path, ignore_errors=True)


def _publish(
    root: Path, unborn: Folder, build: Callable[[str], Spec], key_file: Path | None, identifier: str | None = None
) -> Folder:
    """Complete a hidden folder and rename it to ``identifier``, or to a new id."""
    identifiers = iter([] if identifier is None else [identifier])
    while True:
        delegation_id = next(identifiers, None) or _another_id(identifier)
        spec = build(delegation_id)
        durable.create(unborn.spec, msgspec.json.encode(spec), sync=True)
        durable.create(unborn.summary, msgspec.json.encode(initial(spec)))
        if (root / delegation_id).exists():
            continue
        if key_file is not None:
            durable.replace(key_file, delegation_id.encode())
        try:
            unborn.path.rename(root / delegation_id)
        except FileExistsError:
            continue
        except OSError as error:
            if (root / delegation_id).exists():  # "not empty": another process took the id
                continue
            raise error from None
        return Folder(delegation_id, root / delegation_id)


def _another_id(taken: str | None) -> str:
    if taken is None:
        return new_id()
    raise UnderstudyError(
        ErrorKind.CONFLICT, f"Another delegation was created as {taken} at the same time.", hint="Start these again."
    )


def key_file(key: str) -> Path:
    """Return the file that maps an idempotency key to what was started with it."""
    return _subfolder("keys") / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _claimed(key_file: Path) -> Folder | None:
    """Return the folder that a key was claimed for, if it was created."""
    try:
        delegation_id = durable.read_whole(key_file, 64).decode("ascii", "replace")
    except FileNotFoundError:
        return None
    path = delegations_root() / delegation_id
    return Folder(delegation_id, path) if is_id(delegation_id) and path.is_dir() else None


@contextlib.contextmanager
def _keys_locked():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    with durable.file_lock(_subfolder("keys") / ".lock"):
        yield


def _subfolder(name: str) -> Path:
    path = state_root() / name
    with durable.named_failures(path):
        path.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
    return path


def _unknown(asked: str) -> UnderstudyError:
    names: list[str] = []
    if len(asked) <= 64:
        import difflib

        # Users mistype ids they saw recently; comparing with all would take seconds.
        recent = ids()[:500]
        short = {name.rpartition("-")[2]: name for name in recent}
        near = difflib.get_close_matches(asked, [*recent, *short], n=3, cutoff=0.75)
        names = list(dict.fromkeys(short.get(match, match) for match in near))
    return UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"There is no delegation {asked[:64]!r}.",
        hint="`understudy list` shows the IDs.",
        names=names or None,
    )


def state_root() -> Path:
    """Return ``<state>``; create it with mode 0700 if it is missing.

    Raises ``state_unavailable`` when another user owns it or may write to it, or it is on a
    network file system; ``disk_full`` when it cannot be created because the disk is full.
    """
    configured = os.environ.get("UNDERSTUDY_STATE")
    if configured:
        path = Path(os.path.normpath(Path(configured).expanduser()))  # worktrees are compared by their paths
        if not path.is_absolute():
            raise UnderstudyError(
                ErrorKind.STATE_UNAVAILABLE,
                f"UNDERSTUDY_STATE is {configured!r}, which is not an absolute path.",
                hint="Set it to an absolute path on a local disk, or unset it.",
            )
    else:
        import platformdirs

        path = Path(platformdirs.user_state_dir("understudy", appauthor=False))
    with durable.named_failures(path):
        path.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        facts = path.stat()
    if facts.st_uid != os.geteuid():
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The state folder {path} belongs to user {facts.st_uid}, not to you.",
            hint="Set UNDERSTUDY_STATE to a folder that you own.",
        )
    if facts.st_mode & 0o022:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"Other users may write to the state folder {path}.",
            hint=f"Run `chmod go-w {path}`, or set UNDERSTUDY_STATE to a folder that you own.",
        )
    kind = _file_system(os.path.realpath(path))
    if kind in NETWORK_FILE_SYSTEMS:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The state folder {path} is on a network file system ({kind}), where locks are not reliable.",
            hint="Set UNDERSTUDY_STATE to a folder on a local disk.",
        )
    _check_version(path)
    return path


def _check_version(state: Path) -> None:
    """Refuse a state folder that a newer version of Understudy wrote; write the version into a new folder."""
    file = state / "version"
    try:
        text = durable.read_whole(file, 32).decode("ascii", "replace").strip()
    except FileNotFoundError:
        with durable.named_failures(file):
            # In a repository, none of it is the user's work.
            durable.replace(state / ".gitignore", b"*\n", several_writers=True)
            durable.replace(file, f"{STATE_VERSION}\n".encode(), several_writers=True)
        return
    except OSError as error:
        raise durable.failure(error, file) from error
    if not text.isdecimal() or len(text) > 9:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{file} is damaged: {text!r} is not a version number.",
            hint="Remove that file if only this version of Understudy has used the folder.",
        )
    if int(text) > STATE_VERSION:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The state folder {state} was written by a newer Understudy: its version is {text}, this one reads "
            f"up to {STATE_VERSION}.",
            hint="Update Understudy, or set UNDERSTUDY_STATE to another folder.",
        )


@functools.lru_cache(maxsize=8)
def _file_system(real_path: str) -> str | None:
    """Return the type of the file system that holds ``real_path``; None if the platform does not report it."""
    try:
        table = MOUNTINFO.read_text("utf-8", "surrogateescape")
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
        # A later mount on the same mount point hides the earlier one.
        if (real_path + "/").startswith(below) and len(below) >= best:
            best, kind = len(below), rest.split(" ", 1)[0]
    return kind
