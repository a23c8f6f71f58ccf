"""Read the files of a project, without following links or starting anything."""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from understudy.files import durable

Read = Callable[[str], bytes | None]
"""Returns the content of a file."""

_FILE_BYTES = 1024 * 1024
_MOST_ENTRIES = 2000
"""Entries of a folder that are looked at."""


class Project:
    """The files of one folder. Links are not followed, and nothing is started."""

    def __init__(self, root: Path) -> None:
        """Read the names in the folder; contents are read when they are asked for."""
        self.root = root
        self.files, self.folders = _entries(root)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, None if there is none, it is too large, or a link leads to it."""
        with suppress(OSError):
            content = durable.read_whole(self.root / path, _FILE_BYTES + 1)
            return content if len(content) <= _FILE_BYTES else None
        return None

    def text(self, path: str) -> str:
        """Return the text of a file, empty if there is none."""
        return (self.read(path) or b"").decode("utf-8", "replace")

    def first(self, *names: str) -> str | None:
        """Return the first of these files that exists."""
        return next((name for name in names if name in self.files), None)

    def named(self, pattern: str, *folders: str) -> Iterator[str]:
        """Yield the paths of files in these folders (``""``: the folder itself) whose names match."""
        for folder in folders:
            names = self.files if not folder else _entries(self.root / folder)[0] if folder in self.folders else ()
            yield from (f"{folder}/{name}" if folder else name for name in sorted(names) if re.fullmatch(pattern, name))

    def section(self, file: str, name: str) -> dict[str, Any] | None:
        """Return a table of a TOML or INI file, None if there is none."""
        content = self.read(file) if file in self.files else None
        return None if content is None else settings_section(file, name, content.decode("utf-8", "replace"))

    def package(self) -> dict[str, Any]:
        """Return ``package.json``; empty if there is none."""
        with suppress(ValueError, RecursionError):
            document = json.loads(self.read("package.json") or b"{}")
            return document if isinstance(document, dict) else {}
        return {}


def file_shows(*names: str) -> Callable[[Project], str | None]:
    """Return what finds the first of these files."""
    return lambda project: project.first(*names)


def settings_section(file: str, section: str, text: str) -> dict[str, Any] | None:
    """Return a table of a configuration file; None if the file or the table cannot be read."""
    try:
        if file.endswith(".toml"):
            value: Any = tomllib.loads(text)
            for name in section.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            return value if isinstance(value, dict) else None
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        return dict(parser[section]) if parser.has_section(section) else None
    except (ValueError, configparser.Error):
        return None


def _entries(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the files and of the folders in a folder; links count as neither."""
    files, folders = set(), set()
    with suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_ENTRIES:
                break
            if entry.is_file(follow_symlinks=False):
                files.add(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
    return frozenset(files), frozenset(folders)
