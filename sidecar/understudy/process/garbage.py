"""Look for garbage less often while many objects are made that all stay."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_blocks = 0
_before = gc.get_threshold()


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect rarely during the block, in this whole process; blocks may overlap.

    Each object of a large result makes the collector look at those before it: a quarter of the time of deciding on
    30,000 files.
    """
    global _blocks, _before  # noqa: PLW0603 - the collector is the process's own
    with _lock:
        if _blocks == 0:
            _before = gc.get_threshold()
            gc.set_threshold(200_000, 50, 50)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                gc.set_threshold(*_before)
