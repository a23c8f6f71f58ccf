"""Find changed code, not tests, that asks whether tests run it, in languages in which that is only visible there.

Such code can pass every test and do something else for its users. Lines are read, not executed, so this proves nothing:
it is a question for the reviewer. Honest code rarely has such lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from understudy.judge.deciding import deciding_files
from understudy.judge.project.command_lines import Read
from understudy.judge.runs.judged_tree import Change

_MOST_BYTES = 2 * 1024 * 1024
_MOST = 20


class _Pattern(NamedTuple):
    """What a line has to contain. Every expression takes time in proportion to the text, however hostile that is."""

    first: re.Pattern[str]
    """Begins in the line; may go on in the two lines after it."""
    near: re.Pattern[str] | None = None
    """Is in the line, too, or in the ``lines - 1`` lines after it."""
    lines: int = 1


def _pattern(first: str, near: str | None = None, lines: int = 1) -> _Pattern:
    return _Pattern(re.compile(first), near if near is None else re.compile(near), lines)


_SCRIPT = (
    _pattern(r"\b(?:JEST_WORKER_ID|NODE_TEST_CONTEXT|VITEST(?:_\w+)?)\b"),
    _pattern(r"NODE_ENV\b.{0,20}[\"'`]test[\"'`]|[\"'`]test[\"'`].{0,20}\bNODE_ENV\b"),
    _pattern(r"\btypeof\s{1,9}(?:jest|vi|describe|it|expect|mocha)\b|\bimport\.meta\.(?:vitest|jest)\b"),
    _pattern(r"\bprocess\.(?:argv|execArgv|mainModule)\b.{0,80}(?:test|jest|mocha)"),
)
_PATTERNS: dict[str, Sequence[_Pattern]] = {
    ".go": (_pattern(r"\btesting\.Testing\(|\bflag\.Lookup\(\s{0,9}\"test\.|\bos\.Args\[0\].{0,80}test"),),
    ".rs": (_pattern(r"\bcfg!?\((?:\s{0,9}test\s{0,9}\)|[^)]{0,200}\bnot\(\s{0,9}test\b)|CARGO_TARGET_TMPDIR"),),
    ".java": (
        _pattern("getStackTrace", "(?i:junit|test)", 3),
        _pattern(r"\bClass\.forName\(\s{0,9}\"(?:org\.)?junit"),
    ),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"), _SCRIPT),
}
"""Suffix → what to look for."""
_CFG_TEST = re.compile(r"#\[cfg\(\s*test\s*\)\]")
"""The attribute of the tests in a Rust file."""


def find(
    changes: Sequence[Change],
    read_base: Read,
    read: Read,
    *,
    patterns: Sequence[str],
    besides: Callable[[], Collection[str]] = frozenset,
) -> list[str]:
    """Return ``path:line`` for the lines that the changed files add, at most 20.

    ``patterns`` are further names of test files, ``besides`` returns files that belong to the tests.
    """
    changed = [path for letter, path in changes if letter[:1] != "D" and PurePosixPath(path).suffix in _PATTERNS]
    code = deciding_files.without_test_support(changed, patterns)
    left_out = besides() if code else ()
    lines: list[str] = []
    for path in code:
        content = read(path) if path not in left_out else None
        if content is None or len(content) > _MOST_BYTES:
            continue
        now = _in_text(path, content)
        old = Counter(line for _, line in _in_text(path, read_base(path) or b"")) if now else Counter[str]()
        for number, line in now:
            if old[line] > 0:
                old[line] -= 1
            else:
                lines.append(f"{path}:{number}")
    return lines[:_MOST]


def _in_text(path: str, content: bytes) -> list[tuple[int, str]]:
    suffix = PurePosixPath(path).suffix
    lines = content[:_MOST_BYTES].decode("utf-8", "replace").split("\n")
    matches = []
    for index, line in enumerate(lines):
        if suffix == ".rs" and _CFG_TEST.search(line):
            continue
        if any(_matches(pattern, lines, index) for pattern in _PATTERNS[suffix]):
            matches.append((index + 1, line.strip()))
    return matches


def _matches(pattern: _Pattern, lines: list[str], index: int) -> bool:
    line = lines[index]
    hit = pattern.first.search("\n".join(lines[index : index + 3]))
    if hit is None or hit.start() > len(line):
        return False
    near = "\n".join(lines[index : index + pattern.lines])
    return pattern.near is None or pattern.near.search(near) is not None
