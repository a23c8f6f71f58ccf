"""Write the file that ``--output`` names: the whole text, or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

import click

from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write(file: str, data: bytes, *, overwrite: bool) -> None:
    """Write ``data`` to a file. A failure leaves an existing file as it was, and no part of a new one.

    With ``overwrite``, replace an existing file (behind links, too) and keep its mode. Pipes and terminals are written
    to. Errors: ``target_exists``, ``disk_full``; others of the disk name ``--output``.
    """
    path = Path(file)
    try:
        if overwrite and path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(data)
        elif overwrite:
            _replace(Path(os.path.realpath(path)), data)
        else:
            _create(path, data)
    except FileExistsError:
        raise exists(file) from None
    except OSError as error:
        if error.errno in _FULL:
            raise UnderstudyError(
                ErrorKind.DISK_FULL,
                f"No space left to write {terminal.path(file)}.",
                hint="Free some space, or choose a file on another disk.",
            ) from None
        raise click.BadParameter(f"{file}: {error.strerror}.", param_hint="--output") from None


def exists(file: str) -> UnderstudyError:
    """Return the error for a file that must not be overwritten."""
    return UnderstudyError(
        ErrorKind.TARGET_EXISTS,
        f"{terminal.path(file)} already exists.",
        hint="Choose another file for --output, or overwrite it with --force.",
    )


def _create(path: Path, data: bytes) -> None:
    # Another program may have created the file since it was looked for.
    with path.open("xb") as stream:
        try:
            stream.write(data)
            stream.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _replace(path: Path, data: bytes) -> None:
    import secrets

    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        _create(temporary, data)
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
