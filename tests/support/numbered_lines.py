"""A text of forty numbered lines and what an agent makes of it: changes too far apart to be one hunk."""

from __future__ import annotations

LINES = "".join(f"line {number}\n" for number in range(1, 41))


def changed(*changes: tuple[int, str]) -> str:
    """Return the text with these lines, counted from one, replaced."""
    lines = LINES.splitlines(keepends=True)
    for number, text in changes:
        lines[number - 1] = text
    return "".join(lines)


RESULT = changed((5, "five\n"), (20, "twenty\n"), (35, "thirty-five\n"))
"""Three hunks."""
