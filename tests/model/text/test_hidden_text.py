"""What a reader of a change cannot see is named; what people write in their languages is not."""

from __future__ import annotations

import pytest

from understudy.model.text.hidden_text import MOST_CHARACTERS, hidden_in, why_hidden


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("if access != 'user\u202e \u2066# admin\u2069 \u2066':", "U+202E"),
        ("\u3164 = 1", "U+3164"),
        ("x\u200b = 1", "U+200B"),
        ("say = '\U000e0041'", "U+E0041"),
        ("print('\x1b[8m')", "U+001B"),
        ("good()\rbad()", "U+000D"),
        ("\ue000", "U+E000"),
        ("def \u0430dd(a):", "look like 'add'"),
        ("Roles.ADMI\u039d", "look like 'ADMIN'"),
        ("\uff45val(text)", "which is 'eval'"),
        ("o\ufb03ce = 1", "which is 'office'"),
        ("x = 1" + " " * MOST_CHARACTERS + "; evil()", "2,013 characters"),
        ("exec(decode('" + "QUJD" * 100 + "'))", "400 characters of encoded text"),
        ("exec('" + r"\x41" * 50 + "')", "200 characters of encoded text"),
    ],
)
def test_what_nobody_sees_is_named(line: str, named: str) -> None:
    assert named in (hidden_in(line) or "nothing")
    assert why_hidden(["fine\n", line + "\n"]) == f"has a line with {hidden_in(line)}"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\tx = 1\f\r",
        "\ufeffimport os",
        "# Straße, naïve, привет, Καλημέρα, 你好, こんにちは, שלום, سلام",
        "Δx = μs * σ2  # E = mc²",  # noqa: RUF001 - Greek, as people write it
        "print('❤️ 👨\u200d👩\u200d👧 1️⃣ #️⃣')",
        "می\u200cخواهم",  # noqa: RUF001 - Persian
        '"integrity": "sha512-' + "Ab1/" * 21 + 'AA=="',
        "https://example.invalid/" + "path/" * 50,
    ],
)
def test_what_people_write_is_not_hidden(line: str) -> None:
    assert hidden_in(line) is None
