"""Which limits apply."""

from __future__ import annotations

import pytest

from understudy.config.configuration import DEFAULT_LIMITS
from understudy.config.validation.start_options import merged_limits
from understudy.model.config.delegators import Limits


def test_each_limit_comes_from_the_first_that_names_it():
    found = merged_limits(Limits(max_turns=3), None, Limits(max_turns=9, total_seconds=7))
    assert (found.max_turns, found.total_seconds, found.answer_seconds) == (3, 7, DEFAULT_LIMITS.answer_seconds)


def test_how_long_silence_may_last_is_left_open():
    found = merged_limits(None, Limits())
    assert (found.idle_seconds, found.first_event_seconds) == (None, None), "it depends on who can take over"


@pytest.mark.parametrize(
    ("layers", "first"),
    [
        ([Limits(idle_seconds=20)], 20),
        ([None, Limits(idle_seconds=20)], 20),
        ([Limits(idle_seconds=20), Limits(first_event_seconds=90)], 90),
        ([Limits(idle_seconds=9000)], DEFAULT_LIMITS.first_event_seconds),
    ],
)
def test_a_named_idle_limit_applies_before_the_first_event_unless_that_has_its_own(layers, first):
    assert merged_limits(*layers).first_event_seconds == first
