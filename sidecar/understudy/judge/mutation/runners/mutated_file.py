"""Put a mutant in place of its file in the copy of a result, and put the file back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from understudy.files import nofollow
from understudy.model.errors import ErrorKind, UnderstudyError

_MOST_BYTES = 16 * 1024 * 1024


def read(tree: Path, path: str) -> bytes:
    """Return the content of a regular file of the tree; raise ``path_escape`` if it is a link or not there."""
    file = tree.joinpath(*nofollow.safe_parts(path))
    inside = file.resolve() == tree.resolve().joinpath(*nofollow.safe_parts(path))
    if not inside or not file.is_file() or file.stat().st_size > _MOST_BYTES:
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path} is not a regular file of the worktree, so it cannot be mutated.",
            hint="Replace the link by a file.",
        )
    return file.read_bytes()


@contextlib.contextmanager
def in_place(tree: Path, path: str, content: bytes) -> Iterator[None]:
    """Replace a file of the tree by ``content`` within the block."""
    before = read(tree, path)
    try:
        _put(tree, path, content)
        yield
    finally:
        _put(tree, path, before)


def _put(tree: Path, path: str, content: bytes) -> None:
    nofollow.write_over(tree, path, content)
    # A compiled file of the same size and time would run instead.
    file = tree / path
    if file.suffix == ".py":
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink(missing_ok=True)
