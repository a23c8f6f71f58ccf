"""Files and folders of the user: a file is read with a bound and replaced atomically, never when it changed since then.

A link is kept, and its target is written. Permissions are kept. The text of an open document is encoded like the file
on disk. The current folder of this process may have been deleted while it is in it.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.files import durable
from understudy.model.errors import ErrorKind, Range, UnderstudyError

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


def bytes_like(disk: bytes | None, text: str) -> bytes | None:
    """Encode ``text`` with the first encoding that can decode ``disk`` and encode ``text``; None if there is none.

    The order is UTF-8 (a byte order mark is kept), UTF-16 with a byte order mark, Latin-1. A file that does not exist
    yet is UTF-8.
    """
    encoding = encoding_like(disk, text)
    return None if encoding is None else encode(text, *encoding)


def overwritten(disk: bytes | None, text: str) -> bytes | None:
    """Return the bytes of ``text``, which was saved as UTF-8, if the file no longer contains it; otherwise None.

    Some editors send other line ends than they write. A file that is not UTF-8 may have an encoding that only the
    editor knows, so nothing can be said about it.
    """
    mark = codecs.BOM_UTF8 if (disk or b"").startswith(codecs.BOM_UTF8) else b""
    try:
        same = disk is not None and _plain(disk.decode()) == _plain(text)
        return None if same else encode(text, "utf-8", mark)
    except UnicodeError:
        return None


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n")


def encoding_like(disk: bytes | None, text: str) -> tuple[str, bytes] | None:
    """Return Python's name of the encoding that ``bytes_like`` uses, and the byte order mark before the text."""
    for decoding, mark in _encodings(disk or b""):
        try:
            (disk or b"")[len(mark) :].decode(decoding)
            text.removeprefix("\ufeff").encode(decoding)
        except UnicodeError:
            continue
        return decoding, mark
    return None


def encode(text: str, encoding: str, mark: bytes) -> bytes:
    """Return the text's bytes; a byte order mark in the text is not written twice."""
    return mark + text.removeprefix("\ufeff").encode(encoding)


def _encodings(disk: bytes) -> list[tuple[str, bytes]]:
    encodings = [("utf-8", codecs.BOM_UTF8 if disk.startswith(codecs.BOM_UTF8) else b"")]
    if disk.startswith(codecs.BOM_UTF16_LE):
        encodings.append(("utf-16-le", codecs.BOM_UTF16_LE))
    elif disk.startswith(codecs.BOM_UTF16_BE):
        encodings.append(("utf-16-be", codecs.BOM_UTF16_BE))
    else:
        encodings.append(("latin-1", b""))
    return encodings


def read_bytes(path: Path) -> bytes | None:
    """Return the file's content, or None if there is no readable regular file."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def lines_of(content: bytes) -> list[str]:
    """Return the lines as LSP counts them, with their ends: LF, CRLF or CR and nothing else."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", content.decode("utf-8", "replace"))


def check_lines(folder: Path, path: str | None, buffers: Mapping[str, bytes], chosen: Range) -> None:
    """Raise ``invalid_params`` for a selection that a file does not have; ``buffers`` are unsaved contents by path."""
    if path is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "`range` selects lines of the first file, and no file is named.",
            hint="Name the file.",
            parameter="range",
        )
    content = buffers[path] if path in buffers else read_bytes(folder / path)
    lines = lines_of(content or b"")
    count = len(lines)
    # An editor's selection may end on the empty line after the last one.
    last = count if not lines or lines[-1].endswith(("\n", "\r")) else count - 1
    if chosen.start.line >= max(count, 1) or chosen.end.line > last:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`range` ends at line {chosen.end.line + 1}, but {path} has {count} lines.",
            hint="Select lines that the file has.",
            parameter="range",
        )
