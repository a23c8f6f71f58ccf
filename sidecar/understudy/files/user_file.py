"""Files and folders of the user: a file is read with a bound and replaced atomically, never when it changed since then.

A link is kept, and its target is written. Permissions are kept. The current folder of this process may have been
deleted while it is in it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError

_NEW_FILE = 0o644


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file at ``path``, which may be missing."""

    path: Path
    most_bytes: int
    inside: Path | None = None
    """The project that must contain the file, also behind a link: the author of the project may have made the link."""

    def target(self) -> Path:
        """Return the file behind all links; raise ``path_escape`` if it is outside the project, or in its ``.git``."""
        target = Path(os.path.realpath(self.path))
        if self.inside is None:
            return target
        project = Path(os.path.realpath(self.inside))
        if not target.is_relative_to(project) or ".git" in (p.lower() for p in target.relative_to(project).parts):
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"{self.path} is a link to {target}, which is not a file of this project.",
                hint="It was left as it is. Replace the link by a file.",
            )
        return target

    def read(self) -> bytes | None:
        """Return the content; None if no file. Errors: ``permission_denied``, ``file_too_large``, ``path_escape``."""
        try:
            content = durable.read_whole(self.target(), self.most_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"{self.path} cannot be read: {error.strerror or error}.",
                hint="Check its permissions.",
            ) from error
        if len(content) > self.most_bytes:
            raise UnderstudyError(ErrorKind.FILE_TOO_LARGE, f"{self.path} is longer than {self.most_bytes} bytes.")
        return content

    def write(self, before: bytes | None, after: bytes | None) -> None:
        """Write, or remove for None. Errors: ``permission_denied``, ``conflict`` if it is no longer ``before``."""
        target = self.target()
        mode = _NEW_FILE
        if before is not None:
            mode = stat.S_IMODE(target.stat().st_mode)
            if not mode & 0o222 or not os.access(target, os.W_OK):
                raise UnderstudyError(
                    ErrorKind.PERMISSION_DENIED, f"{self.path} is read-only.", hint="Make it writable, then try again."
                )
        if self.read() != before:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"{self.path} changed in the meantime.", hint="Nothing was written. Try again."
            )
        if after is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        durable.replace(target, after, mode=mode, sync=True, several_writers=True)
        target.chmod(mode)

    def problem(self, error: OSError | UnderstudyError) -> str:
        """Return an error of reading or writing the file as text for a person, with what to do."""
        if isinstance(error, UnderstudyError):
            return f"{error.message} {error.hint}" if error.hint else error.message
        return f"{self.path}: {error.strerror or error}."

    def missing_folders(self, most: int) -> int:
        """Return how many folders above the file do not exist, ``most`` at most."""
        return min(sum(not folder.exists() for folder in self.path.parents), most)


def current_folder() -> Path | None:
    """Return the current folder, None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def require_current_folder() -> Path:
    """Return the current folder; raise ``invalid_params`` if it was deleted."""
    folder = current_folder()
    if folder is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "The current folder was deleted, and the command needs one.",
            hint="Change to a folder that exists: cd ~",
        )
    return folder
