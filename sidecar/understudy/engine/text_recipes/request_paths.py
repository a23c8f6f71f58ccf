"""The paths of a request: what a word of the command line names, and the file that is written, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from understudy.git import repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

MOST_BYTES = 16 << 20
"""A larger existing file is not replaced."""


@dataclass(frozen=True)
class Target:
    """A checked path, and what was there when it was checked."""

    name: str
    """As the user named it, for messages; C-quoted if it is unusual."""
    path: Path
    """Its real folder, and its name."""
    before: bytes | None
    """The content of the existing file; None if there is none."""
    mode: int


def check_target(word: str, folder: Path, *, root: Path | None, may_exist: bool) -> Target:
    """Return the target that ``word`` names, seen from ``folder``; writes nothing.

    The user may name any folder, but a link must not lead out of the repository around ``folder``, nor out of ``root``.
    Errors: ``path_escape`` (also for a link or something else that is not a regular file, and below ``.git``),
    ``target_exists`` unless it ``may_exist``, ``permission_denied``, ``file_too_large``.
    """
    name = path_quoting.quote(os.fsencode(word))
    named = Path(os.path.normpath(folder / expanded(word, folder)))
    real = Path(os.path.realpath(named.parent)) / named.name
    if not named.name or word.endswith(("/", "/.")):
        raise _refused(name, "names a folder")
    if root is not None and not real.is_relative_to(os.path.realpath(root)):
        raise _refused(name, f"is outside of {os.path.realpath(root)}")
    top = leads_out(str(named), str(real), folder)
    if top is not None:
        raise _refused(name, f"passes through a link that leads out of {top}")
    if ".git" in (part.lower() for part in real.parts):
        raise _refused(name, "is inside of a git directory")
    try:
        before, mode = _current(real)
    except IsADirectoryError:
        raise _refused(name, "is a folder") from None
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED, f"{name} cannot be read: {error.strerror}.", hint="Name another file."
        ) from None
    if before is not None and not may_exist:
        raise _exists(name)
    return Target(name, real, before, mode)


def write(target: Target, content: str) -> None:
    """Write ``content`` into a new file beside the target and rename it; a failure leaves the target as it was.

    Errors: ``conflict`` if the target changed since it was checked, ``target_exists`` if it was created since,
    ``permission_denied``, ``disk_full``.
    """
    path = target.path
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if Path(os.path.realpath(path.parent)) != path.parent:
            raise _refused(target.name, "has a folder that was replaced by a link meanwhile")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode("utf-8", "surrogatepass"))
                if target.before is not None:
                    os.fchmod(descriptor, target.mode)
                file.flush()
                os.fsync(descriptor)
            if target.before is None:
                # Unlike a rename, a link never replaces a file that was created meanwhile.
                os.link(temporary, path)
            else:
                if _current(path)[0] != target.before:
                    raise UnderstudyError(
                        ErrorKind.CONFLICT,
                        f"{target.name} changed while the model was working, and was not replaced.",
                        hint="Run the command again.",
                    )
                temporary.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    except FileExistsError:
        raise _exists(target.name) from None
    except OSError as error:
        from understudy.files import durable

        failure = durable.failure(error, path)
        kind = failure.kind if failure.kind is ErrorKind.DISK_FULL else ErrorKind.PERMISSION_DENIED
        raise UnderstudyError(
            kind, f"{target.name} cannot be written: {error.strerror or error}.", hint="Name another file."
        ) from None


def difference(target: Target, content: str) -> str:
    """Return the unified diff from the existing file, or from nothing, to ``content``."""
    from understudy.model.text import patches

    name = target.name
    old = f"a/{name}" if target.before is not None else "/dev/null"
    return patches.unified((target.before or b"").decode("utf-8", "replace"), content, old, f"b/{name}")


def _current(path: Path) -> tuple[bytes | None, int]:
    """Return the content and mode of a regular file; (None, 0) if there is none."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path_quoting.quote(os.fsencode(path)), "is a link or a special file")
    if status.st_size > MOST_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE, f"{path} has {status.st_size} bytes and is not replaced.", hint="Name a new file."
        )
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1), stat.S_IMODE(status.st_mode) & 0o777


def _exists(name: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.TARGET_EXISTS,
        f"{name} already exists.",
        hint="Add --force to replace it, --diff to see the difference, or --stdout to print the file.",
    )


def _refused(name: str, why: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.PATH_ESCAPE, f"{name} {why}.", hint="Nothing was written. Name another target.")


def expanded(word: str, folder: Path) -> Path:
    """Return the path with ``~`` expanded, unless ``folder`` has an entry ``~``: a repository may have one."""
    path = Path(word)
    if not path.parts or not path.parts[0].startswith("~") or os.path.lexists(folder / path.parts[0]):
        return path
    return path.expanduser()


def leads_out(path: str, real: str, folder: Path) -> Path | None:
    """Return the repository around ``folder`` if ``path`` is in it and ``real``, what its links lead to, is not.

    Without a repository, the folder itself counts.
    """
    here = Path(os.path.realpath(folder))
    top = repository.top_of(here)
    seen = Path(os.path.normpath(here / os.path.relpath(path, folder)))
    return top if seen.is_relative_to(top) and not Path(real).is_relative_to(top) else None


def require_inside(word: str, path: str, folder: Path) -> None:
    """Raise ``path_escape`` if a link leads out of the repository around ``folder``."""
    real = os.path.realpath(path)
    top = leads_out(path, real, folder)
    if top is not None:
        name, target = (path_quoting.quote(os.fsencode(one)) for one in (word, real))
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{name} is or passes through a link that leads out of {top}.",
            hint=f"Nothing was sent. To send it, name what the link leads to: {target}",
        )
