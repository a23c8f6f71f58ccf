"""Copy the files of a hidden check into the worktree while the check runs.

The files come from the user's own configuration folder, so that no repository and no agent decides what they contain.
Their names are recorded before they are copied: if the worker is killed, the process that records its end removes them
(``journal.check_leftovers``).
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.config.locations import user_folder
from understudy.files import durable, nofollow
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.process.failpoints import failpoint

MOST_FILES = 200
FILE_BYTES = 16 * 1024 * 1024


@contextmanager
def placed(check: Check, tree: Path, record: Path) -> Iterator[None]:
    """Copy the files of ``check`` to the same paths of ``tree``; remove them and the record afterwards.

    Files of the result at these paths are replaced, so reset the worktree afterwards. Nothing happens for a check
    without files. ``record`` is a file outside of the worktree. Errors: ``config_invalid`` (a file is missing or too
    large), ``path_escape``.
    """
    if not check.hidden or not check.files:
        yield
        return
    contents = _read(check)
    record.write_text(json.dumps(sorted(contents)))
    try:
        failpoint("hidden files recorded")
        for path, content in contents.items():
            _clear(tree, path)
            nofollow.write_over(tree, path, content)
        failpoint("hidden files placed")
        yield
    finally:
        _remove(tree, list(contents))
        record.unlink(missing_ok=True)


def _remove(tree: Path, paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError, UnderstudyError):
            nofollow.remove(tree, path)


def _clear(tree: Path, path: str) -> None:
    """Remove a link, folder or special file of the result that is in the place of a hidden file."""
    target = tree.joinpath(*nofollow.safe_parts(path))
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(target).st_mode
        if stat.S_ISDIR(mode) and target.parent.resolve() == tree.resolve().joinpath(*nofollow.safe_parts(path)[:-1]):
            shutil.rmtree(target)
        elif not stat.S_ISREG(mode):
            nofollow.remove(tree, path)


def _read(check: Check) -> dict[str, bytes]:
    folder = user_folder()
    contents: dict[str, bytes] = {}
    if len(check.files) > MOST_FILES:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The hidden check {check.name} has {len(check.files)} files; at most {MOST_FILES} are allowed.",
            hint="Put the tests into fewer files, or into several checks.",
        )
    for path in check.files:
        source = folder.joinpath(*nofollow.safe_parts(path))
        why = f"it has over {FILE_BYTES >> 20} MiB"
        try:
            contents[path] = durable.read_whole(source, FILE_BYTES + 1)
        except (OSError, UnderstudyError) as error:
            contents.pop(path, None)
            why = str(error).rstrip(".")
        if path not in contents or len(contents[path]) > FILE_BYTES:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"The file {path} of the hidden check {check.name} cannot be read from {folder}: {why}.",
                hint="Put it into your configuration folder, or correct `files`.",
            )
    return contents
