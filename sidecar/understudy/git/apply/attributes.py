"""Keep what belongs to a file besides its content: owner, permissions, extended attributes, hard links.

A file is replaced by a new one with the same attributes, unless it has other names (hard links) or belongs to another
user. Such a file is written *in place*, which keeps the file itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from understudy.git.apply import filesystem

_CAPABILITY = b"security.capability"
"""The kernel removes it when the file is written."""
_ACL = b"system.posix_acl_access"
_NONE = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENODATA, errno.ENOSYS})


class LostError(Exception):
    """An attribute cannot be kept; the text names it."""


def is_kept_in_place(facts: os.stat_result) -> bool:
    """Return whether only writing a regular file in place keeps what belongs to it."""
    if facts.st_nlink > 1:
        return True
    user = os.geteuid()
    return user != 0 and (facts.st_uid != user or not _is_in_group(facts))


def refuse_in_place(descriptor: int, facts: os.stat_result) -> None:
    """Raise ``LostError`` if writing the open file in place is impossible, or would remove an attribute for good."""
    user = os.geteuid()
    if user == 0:
        return
    if facts.st_uid != user:
        if not os.access(f"/proc/self/fd/{descriptor}", os.W_OK):
            raise LostError("owner")
        if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise LostError("setuid or setgid bit")
    # A write removes it, and then only a member of the group can set it again.
    if facts.st_mode & stat.S_ISGID and not _is_in_group(facts):
        raise LostError("setgid bit")
    if _CAPABILITY in extended(descriptor):
        raise LostError(f"extended attribute {_CAPABILITY.decode()}")


def _is_in_group(facts: os.stat_result) -> bool:
    return facts.st_gid in {os.getegid(), *os.getgroups()}


def copy(source: int, target: int, mode: int) -> None:
    """Give an open file the owner and extended attributes of another, and ``mode``; raise ``LostError`` if it cannot.

    The permissions come last: with them, the file may no longer be writable.
    """
    facts, new = os.fstat(source), os.fstat(target)
    if (facts.st_uid, facts.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(target, facts.st_uid, facts.st_gid)
        except OSError as error:
            raise LostError("owner") from error
    restore(target, extended(source), mode)


def restore(target: int, attributes: Mapping[bytes, bytes], mode: int) -> None:
    """Give an open file these extended attributes and ``mode``; raise ``LostError`` if it cannot have them.

    Attributes that the system or an administrator gave it (``security.ima``) are restored where that is allowed.
    """
    present = extended(target)
    for name in present.keys() - attributes.keys():
        if name == _ACL:  # inherited from the folder
            os.removexattr(target, name)
    for name, value in attributes.items():
        if present.get(name) != value:
            try:
                os.setxattr(target, name, value)
            except OSError as error:
                if name == _ACL or name.startswith(b"user."):
                    raise LostError(f"extended attribute {os.fsdecode(name)}") from error
    set_mode(target, mode)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open file; raise ``LostError`` where the system drops a bit."""
    if stat.S_IMODE(os.fstat(descriptor).st_mode) == mode:
        return
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        raise LostError("permissions") from error
    # chmod(2) drops the setgid bit silently if the file's group is not one of the caller's.
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        raise LostError("setuid or setgid bit")


def overwrite(descriptor: int, content: bytes, mode: int) -> None:
    """Write an open file in place and set its permissions; a write removes some attributes, which are set again."""
    capability = extended(descriptor).get(_CAPABILITY)
    filesystem.overwrite(descriptor, content)
    if capability is not None:
        os.setxattr(descriptor, _CAPABILITY, capability)
    set_mode(descriptor, mode)


def git_mode(permissions: int) -> str:
    """Return git's mode of a regular file with these permission bits."""
    return "100755" if permissions & stat.S_IXUSR else "100644"


def mode_after(before: int, git_before: str, git_after: str) -> int:
    """Return a file's permission bits after a change of git's mode; without one, they stay."""
    if git_before == git_after:
        return before
    # As many may execute it as may read it.
    return before | (before & 0o444) >> 2 if git_after == "100755" else before & ~0o111


def extended(descriptor: int) -> dict[bytes, bytes]:
    """Return the extended attributes of an open file; Python knows them on Linux only."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = map(os.fsencode, os.listxattr(descriptor))
        return {name: os.getxattr(descriptor, name) for name in names}
    except OSError as error:
        if error.errno in _NONE:
            return {}
        raise
