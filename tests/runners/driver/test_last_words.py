"""Test what is shown of the output of a program that failed."""

from __future__ import annotations

import pytest

from understudy.runners.driver.child_source import SHOWN_CHARACTERS, last_words

PYTHON = """Traceback (most recent call last):
  File "/agent.py", line 3, in <module>
    start()
    ^^^^^^^"""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"{PYTHON}\nKeyError: 'model'", "KeyError: 'model'"),
        (
            f"{PYTHON}\nlitellm.exceptions.APIConnectionError: no route",
            "litellm.exceptions.APIConnectionError: no route",
        ),
        (f"{PYTHON}\nKeyboardInterrupt", "KeyboardInterrupt"),
        (f"{'x' * SHOWN_CHARACTERS}\n{PYTHON}\nValueError: n", "ValueError: n"),
        (
            "/a.js:1\nthrow x\n^\n\nTypeError: x is not a function\n    at /a.js:1:2\n\nNode.js v20",
            "TypeError: x is not a function",
        ),
        ("Error [ERR_X]: no module\n    at load", "Error [ERR_X]: no module"),
    ],
)
def test_the_error_comes_first(text: str, first: str) -> None:
    shown = last_words(text)
    assert shown.partition("\n")[0] == first
    assert shown.endswith(text[-20:])


@pytest.mark.parametrize("text", ["no license", "one\n  two\nDone: three", "", "0 errors\nsee the log"])
def test_other_output_stays_as_it_is(text: str) -> None:
    assert last_words(text) == text
