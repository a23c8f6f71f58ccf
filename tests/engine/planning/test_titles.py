"""Test the titles of delegations in lists."""

from __future__ import annotations

import pytest

from understudy.engine.planning.plan import Plan


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["src/roman/__init__.py"], "roman/__init__.py"),
        (["web/cart/index.tsx", "crates/a/src/lib.rs"], "cart/index.tsx, src/lib.rs"),
        (["__init__.py"], "__init__.py"),
        (["src/shop/prices.py", "a/b", "c", "d"], "prices.py, b, c"),
    ],
)
def test_a_name_that_many_folders_have_is_shown_with_its_folder(files: list[str], names: str) -> None:
    assert Plan._names(files) == names
