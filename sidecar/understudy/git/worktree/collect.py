"""Decide which files of a worktree belong to a result, within the limits."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from understudy.files import nofollow
from understudy.git.path_rules import refused, without_environments
from understudy.model.text.path_quoting import quote

RESULT_FILE_BYTES = 50 * 1024 * 1024
"""A larger file is left out of a result and listed; GitHub warns about files of this size."""


RESULT_TOTAL_BYTES = 500 * 1024 * 1024
"""All new and changed files together; files that do not fit are left out and listed."""


RESULT_NEW_FILES = 50_000
"""Most new files in one result; further ones, in the order of paths, are left out and listed."""

_SHOWN_CHARACTERS = 200


class ResultCollector:
    """Decides which files of a worktree go into a result, within the limits."""

    def __init__(self, root: Path, excluded: list[bytes]) -> None:
        """Prepare to read the worktree at ``root``; ``excluded`` paths are never part of the result."""
        self.excluded = set(excluded)
        self.root = os.fsencode(root) + b"/"
        self.notes: list[str] = []
        self.left_out: list[bytes] = []
        self.budget = RESULT_TOTAL_BYTES

    def is_content(self, path: bytes) -> bool:
        """Return whether ``path`` is a file or a link."""
        try:
            mode = os.lstat(self.root + path).st_mode
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.left_out.append(path)
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def fits(self, path: bytes) -> bool:
        """Count ``path`` against the limits; return whether it is within them."""
        try:
            facts = os.lstat(self.root + path)
        except OSError:
            return False
        if stat.S_ISREG(facts.st_mode) and (facts.st_size > RESULT_FILE_BYTES or facts.st_size > self.budget):
            self.left_out.append(path)
            return False
        self.budget -= facts.st_size
        return True

    def new_files(self, listed: list[bytes], rules: bytes) -> list[bytes]:
        """Return the untracked files that belong to the result, nested repositories included."""
        taken: list[bytes] = []
        listed, environments = without_environments(listed)
        self.notes += [
            f"{quote(folder)} is a virtual environment, which is not part of the result." for folder in environments
        ]
        for path in listed:
            if path.rstrip(b"/") in self.excluded:
                continue
            if path.endswith(b"/"):
                inside = self._nested(path[:-1], rules)
                self.notes.append(
                    f"{quote(path[:-1])} is a nested repository: its {len(inside)} files are part of the result, "
                    "its history is not."
                )
            else:
                inside = [path]
            for file in inside:
                if len(taken) >= RESULT_NEW_FILES or refused(file):
                    self.left_out.append(file)
                elif self.is_content(file) and self.fits(file):
                    taken.append(file)
        return taken

    def finish(self) -> list[str]:
        """Return the notes for the user."""
        if self.left_out:
            named = ", ".join(_short(path) for path in self.left_out[:10]) + (" …" if len(self.left_out) > 10 else "")
            self.notes.append(
                f"{len(self.left_out)} files were left out, because of their size, number or name: {named}"
            )
        return self.notes

    def _nested(self, folder: bytes, rules: bytes) -> list[bytes]:
        import pathspec

        ignored = pathspec.GitIgnoreSpec.from_lines(rules.decode(errors="surrogateescape").splitlines())
        paths: list[bytes] = []
        for current, folders, names in nofollow.walk_any_depth(self.root + folder):
            below = current[len(self.root) :]
            # A link to a folder is content, not a folder to descend into.
            names += [name for name in folders if os.path.islink(os.path.join(current, name))]  # noqa: PTH114, PTH118
            folders[:] = [name for name in folders if name != b".git" and name not in names]
            paths += [below + b"/" + name for name in names if name != b".git"]
            if len(paths) > RESULT_NEW_FILES:
                break
        return sorted(path for path in paths if not ignored.match_file(os.fsdecode(path)))


def _short(path: bytes) -> str:
    shown = quote(path)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
