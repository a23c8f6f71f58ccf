"""The garbage collector works as before once the last block is left."""

from __future__ import annotations

import gc

import pytest

from understudy.process.garbage import fewer_collections


def test_the_thresholds_return_after_the_last_of_overlapping_blocks():
    before = gc.get_threshold()
    first, second = fewer_collections(), fewer_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() > before
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
    with pytest.raises(ValueError, match="x"), fewer_collections():
        raise ValueError("x")
    assert gc.get_threshold() == before
