"""URIs, paths, and which workspace a file belongs to."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from understudy.git import repository
from understudy.model.errors import ErrorKind, UnderstudyError


def path_of(uri: str) -> Path:
    """Return the absolute path for a ``file:`` URI or an absolute path; raise ``invalid_params`` for anything else.

    Bytes that are not UTF-8 survive: a percent escape stands for a byte (RFC 3986 §2.1), a path is bytes.
    """
    if uri.startswith("/"):
        raw = os.fsencode(uri)
    else:
        if not _is_file_here(uri):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{uri!r} does not name a file on this machine.",
                hint="Give a file: URI or an absolute path.",
            )
        # Editors leave "#" and "?" of a file's name unescaped now and then; a file URI has neither fragment nor query.
        raw = unquote_to_bytes(uri[len("file:") :].removeprefix("//localhost").removeprefix("//"))
    if b"\0" in raw or not raw.startswith(b"/"):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"{uri!r} is not an absolute path.", hint="Give a file: URI or an absolute path."
        )
    return Path(os.path.normpath(os.fsdecode(raw)))


def _is_file_here(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "file" and parts.netloc in {"", "localhost"}


def uri_of(path: Path) -> str:
    """Return the ``file:`` URI of an absolute path, byte for byte."""
    from urllib.parse import quote_from_bytes  # noqa: PLC0415 - not every command needs it

    return "file://" + quote_from_bytes(os.fsencode(path))


def real(path: Path) -> Path:
    """Return ``path`` with the links of its folder resolved, but not the last name: a link is a file of its own."""
    return path.parent.resolve() / path.name


def workspace_of(uris: list[str], workspace: str | None, folder: Path | None) -> Path:
    """Return the workspace: the one named, else the git top level of the first file, else of the caller's folder."""
    if workspace is not None:
        named = path_of(workspace)
        if not named.is_dir():
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE, f"{named} is not a folder.", hint="Name the folder of the workspace."
            )
        return repository.workspace_of(named.resolve())
    if uris:
        return repository.workspace_of(real(path_of(uris[0])).parent)
    if folder is not None:
        return repository.workspace_of(folder.resolve())
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS, "No file and no workspace is named.", hint="Name a file, or pass `workspace`."
    )


def inside(workspace: Path, uri: str) -> str:
    """Return the path of ``uri`` inside ``workspace`` (POSIX, surrogate-escaped); raise ``path_escape`` outside it."""
    path = real(path_of(uri))
    try:
        relative = path.relative_to(workspace)
    except ValueError:
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path} is outside the workspace {workspace}.",
            hint="Name files of one workspace; start another delegation for another one.",
        ) from None
    if relative == Path() or ".git" in relative.parts:
        raise UnderstudyError(ErrorKind.PATH_ESCAPE, f"{path} is not a file of the workspace.", hint="Name a file.")
    return relative.as_posix()
