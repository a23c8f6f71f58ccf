"""How names are listed in a sentence."""

from __future__ import annotations

import pytest

from understudy.model.text.sanitize import name_list


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")],
)
def test_the_first_names_and_the_number_of_the_others(names: list[str], expected: str) -> None:
    assert name_list(iter(names), 3) == expected
