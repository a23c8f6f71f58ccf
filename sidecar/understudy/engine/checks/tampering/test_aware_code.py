"""Find changed code, not tests, that asks whether tests run it, changes what an assertion does, or equals everything.

Such code can pass every test and do something else for its users. Lines are read, not executed, so this proves nothing:
it is a question for the reviewer. Honest code rarely has such lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath

from understudy.engine.checks.deciding import deciding_files
from understudy.engine.checks.judged_tree import Change

Read = Callable[[str], bytes | None]

_MOST_BYTES = 2 * 1024 * 1024
_MOST = 20

_ASKS = "asks whether tests run it"
_CHANGES = "changes what tests assert with"
_EQUAL = "equals everything"
_RUNNER = r"(?:py\.?test|unittest)"
_PROCESS = r"(?:sys\.(?:modules|argv|orig_argv)|\benviron\b|\bgetenv\b|/proc/|cmdline)"
_CALLER = r"(?:_getframe|\binspect\.(?:stack|currentframe)|\bextract_stack|co_filename|f_back|f_globals)"
_TEST_NAME = r"[\"'](?:\w*[/_])?tests?(?:[/_.]\w*)?[\"']"
"""A text such as ``"test_"``."""
_SCRIPT = (
    (re.compile(r"\b(?:JEST_WORKER_ID|NODE_TEST_CONTEXT|VITEST(?:_\w+)?)\b"), _ASKS),
    (re.compile(r"NODE_ENV\b.{0,20}[\"'`]test[\"'`]|[\"'`]test[\"'`].{0,20}\bNODE_ENV\b"), _ASKS),
    (re.compile(r"\btypeof\s+(?:jest|vi|describe|it|expect|mocha)\b|\bimport\.meta\.(?:vitest|jest)\b"), _ASKS),
    (re.compile(r"\bprocess\.(?:argv|execArgv|mainModule)\b.{0,80}(?:test|jest|mocha)"), _ASKS),
    (re.compile(r"^\s*(?:assert|expect)\.\w+\s*=[^=]"), _CHANGES),
)
_PATTERNS: dict[str, Sequence[tuple[re.Pattern[str], str]]] = {
    ".py": (
        (re.compile(rf"{_PROCESS}.*{_RUNNER}|{_RUNNER}.*{_PROCESS}|sys\.modules.*\n.*{_RUNNER}"), _ASKS),
        (re.compile(rf"{_CALLER}.*\n?.*\n?.*?(?:{_RUNNER}|{_TEST_NAME})|(?:{_RUNNER}|{_TEST_NAME}).*{_CALLER}"), _ASKS),
        (re.compile(r"[\"']test[\"'] in sys\.argv|\b(?:environ|getenv)\b.*== ?[\"']test(?:ing)?[\"']"), _ASKS),
        (re.compile(r"\bPYTEST_(?:CURRENT_TEST|VERSION|XDIST_\w+)\b"), _ASKS),
        (re.compile(r"^\s*(?:unittest|_?pytest|builtins|operator)(?:\.\w+)+\s*=(?!=)"), _CHANGES),
        (re.compile(r"\bsetattr\(\s*(?:unittest|_?pytest|builtins|operator)\b"), _CHANGES),
        (re.compile(r"^\s*def __(?:eq|ne|[lg][te]|instancecheck)__\([^)]*\)[^:\n]*:\s*return True\b"), _EQUAL),
    ),
    ".go": (
        (re.compile(r"\btesting\.Testing\(|\bflag\.Lookup\(\s*\"test\.|\bos\.Args\[0\].{0,80}test"), _ASKS),
    ),
    ".rs": ((re.compile(r"\bcfg!?\((?:\s*test\s*\)|[^)]*\bnot\(\s*test\b)|CARGO_TARGET_TMPDIR"), _ASKS),),
    ".java": ((re.compile(r"getStackTrace.*\n?.*\n?.*(?i:junit|test)|\bClass\.forName\(\s*\"(?:org\.)?junit"), _ASKS),),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"), _SCRIPT),
}  # fmt: skip
"""Suffix → patterns of up to three lines, and what they show."""
_CFG_TEST = re.compile(r"#\[cfg\(\s*test\s*\)\]")
"""The attribute of the tests in a Rust file."""


def find(
    changes: Sequence[Change], read_base: Read, read: Read, *, patterns: Sequence[str], besides: Collection[str] = ()
) -> list[str]:
    """Return ``path:line (what it does)`` for the lines that the changed files add, at most 20.

    ``patterns`` are further names of test files, ``besides`` files that belong to the tests.
    """
    changed = [path for letter, path in changes if letter[:1] != "D" and PurePosixPath(path).suffix in _PATTERNS]
    found: list[str] = []
    for path in deciding_files.without_test_support(changed, patterns):
        content = read(path) if path not in besides else None
        if content is None or len(content) > _MOST_BYTES:
            continue
        now = _in_text(path, content)
        old = Counter(line for _, line, _ in _in_text(path, read_base(path) or b"")) if now else Counter[str]()
        for number, line, what in now:
            if old[line] > 0:
                old[line] -= 1
            else:
                found.append(f"{path}:{number} ({what})")
    return found[:_MOST]


def _in_text(path: str, content: bytes) -> list[tuple[int, str, str]]:
    suffix = PurePosixPath(path).suffix
    lines = content[:_MOST_BYTES].decode("utf-8", "replace").split("\n")
    found = []
    for index, line in enumerate(lines):
        if suffix == ".rs" and _CFG_TEST.search(line):
            continue
        window = "\n".join(lines[index : index + 3])
        # A match has to begin in the line itself.
        hits = ((each.search(window), what) for each, what in _PATTERNS[suffix])
        what = next((what for hit, what in hits if hit is not None and hit.start() <= len(line)), None)
        if what is not None:
            found.append((index + 1, line.strip(), what))
    return found
