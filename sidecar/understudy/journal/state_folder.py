"""Find and check ``<state>``, the folder of all state, before anything is written to it.

``<state>`` is ``$UNDERSTUDY_STATE``, else the platform's state folder + ``understudy``. It must be on a local disk:
flock, atomic renames and byte offsets are not reliable on network file systems.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError

_MOUNTINFO = Path("/proc/self/mountinfo")
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


def state_root() -> Path:
    """Return ``<state>``; create it with mode 0700 if it is missing.

    Raises ``state_unavailable`` when another user owns it or may write to it, or it is on a
    network file system; ``disk_full`` when it cannot be created because the disk is full.
    """
    configured = os.environ.get("UNDERSTUDY_STATE")
    if configured:
        path = Path(configured).expanduser()
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
        # A later mount on the same mount point hides the earlier one.
        if (real_path + "/").startswith(below) and len(below) >= best:
            best, kind = len(below), rest.split(" ", 1)[0]
    return kind
