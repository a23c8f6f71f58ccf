"""Walk a folder of any depth. Before Python 3.12, ``os.walk`` calls itself for each level, and fails at a thousand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator


def walk(
    top: bytes, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
    """Yield each folder with the names of its folders and of its other entries, from the top down, as ``os.walk`` does.

    No link is followed; a link to a folder is listed among the folders. Names that the caller removes from the list of
    folders are not walked. ``onerror`` gets the error of a folder that cannot be read, which is left out.
    """
    waiting = [top]
    while waiting:
        current = waiting.pop()
        folders: list[bytes] = []
        names: list[bytes] = []
        linked: set[bytes] = set()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    is_folder = _is_folder(entry)
                    (folders if is_folder else names).append(entry.name)
                    if is_folder and entry.is_symlink():
                        linked.add(entry.name)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        yield current, folders, names
        waiting += [current + b"/" + name for name in reversed(folders) if name not in linked]


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
