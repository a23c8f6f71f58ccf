"""Test the titles of delegations in lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

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


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ("Do these things:\n- the first\n- the second", "Do these things"),
        ("  Fix it.\n", "Fix it."),
        (":", ":"),
    ],
)
def test_the_title_of_a_task_is_its_first_line(task: str, title: str) -> None:
    plan = cast("Any", SimpleNamespace(draft=SimpleNamespace(params=SimpleNamespace(task=task))))
    assert cast("Any", Plan.title).fget(plan) == title
