"""Test unified diffs: git applies them, and no text makes them slow."""

from __future__ import annotations

import subprocess

import pytest

from understudy.model.text.patches import MOST_LINES, unified

LONG = [f"line {number}\n" for number in range(MOST_LINES + 1)]
HOSTILE = [f"{number % 120}\n" for number in range(200_000)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\n", "a\nc\n"),
        ("a\n", "a\nno line break"),
        ("a\x0b\u2028b\r\n", "a\x0b\u2028c\r\n"),
        (LONG, [*LONG, "last"]),
        (LONG, ["first\n", *LONG]),
        (LONG, [*LONG[:100], "x\n", *LONG[110:5000], "y\n"]),
        (LONG, ["only\n"]),
        (["only"], LONG),
        (HOSTILE, HOSTILE[::-1]),
    ],
)
def test_git_applies_the_difference(tmp_path, before, after):
    """`difflib` needs hours for the longest one."""
    before, after = "".join(before), "".join(after)
    (tmp_path / "a.txt").write_bytes(before.encode())
    (tmp_path / "diff").write_bytes(unified(before, after, "a/a.txt", "b/a.txt").encode())
    subprocess.run(["git", "apply", "--whitespace=nowarn", "diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.txt").read_bytes() == after.encode()


def test_equal_texts_have_no_difference():
    assert unified("a\n", "a\n", "a", "b") == unified("".join(LONG), "".join(LONG), "a", "b") == ""


def test_a_long_new_file_and_a_removed_one():
    text = "".join(LONG)
    made = unified("", text, "/dev/null", "b/a.txt")
    assert made.startswith(f"--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,{len(LONG)} @@\n+")
    assert f"@@ -1,{len(LONG)} +0,0 @@\n-" in unified(text, "", "a/a.txt", "/dev/null")
