"""Tracked files contain no paths of one machine, no registry addresses, no keys and no large files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

_READERS = rb"(?!(?:user|you|me|ada|dev)\b|<)"
_ROOTS = b"|".join(b"/" + name + b"/" for name in (b"root", b"work"))
ONE_MACHINE = re.compile(
    rb"(?<![\w./-])(?:/home/%(r)b[a-z][\w.-]*/|/Users/%(r)b[A-Za-z][\w.-]*/|%(roots)b|/mnt/[a-z][\w.-]*/|/tmp/[a-z]\w+/"
    rb"|/opt/(?!(?:homebrew|python)\b)[a-z][\w.-]*/|[C-Z]:\\{1,2}Users\\{1,2}+%(r)b)"
    % {b"r": _READERS, b"roots": _ROOTS}
)
"""Absolute paths of the author's machine. ``/home/ada`` and similar paths are examples."""
REGISTRY = re.compile(
    rb"(?:files\.pythonhosted\.org|pypi\.org/simple|registry\.npmjs\.org|--(?:extra-)?index-url|--find-links)"
)
KEY = re.compile(rb"\b(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{32,}|gh[pousr]_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16})\b")
MAY_NAME_A_REGISTRY = {
    "scripts/lock": "resolves from the public index, whatever index the machine is configured to use",
    "tests/repository/test_tracked_files.py": "contains the pattern",
}
LARGEST = 500_000


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "-C", str(TOP), "ls-files", "-z"], capture_output=True, check=False, timeout=30)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [TOP / name for name in listed.stdout.decode().split("\0") if name and (TOP / name).is_file()]


def found(pattern: re.Pattern[bytes], allowed: dict[str, str]) -> list[str]:
    return [
        f"{path.relative_to(TOP)}:{number}: {match[0].decode(errors='replace')}"
        for path in tracked()
        if path.relative_to(TOP).as_posix() not in allowed
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def test_no_path_of_one_machine():
    assert found(ONE_MACHINE, {}) == []


def test_no_address_of_a_registry():
    assert found(REGISTRY, MAY_NAME_A_REGISTRY) == []


def test_no_key():
    assert found(KEY, {"tests/repository/test_tracked_files.py": "contains the pattern"}) == []


def test_no_large_file():
    assert [str(path.relative_to(TOP)) for path in tracked() if path.stat().st_size > LARGEST] == []


@pytest.mark.parametrize("name", ["build.txt", "run.txt", "dev.txt", "lock.txt", "editors.txt"])
def test_every_requirement_is_pinned_and_hashed(name: str):
    text = (TOP / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", entry), entry


def test_dev_contains_run():
    def pins(name: str) -> set[str]:
        text = (TOP / "requirements" / name).read_text(encoding="utf-8")
        return set(re.findall(r"^([a-z0-9._-]+==\S+)", text, re.MULTILINE))

    assert pins("run.txt") <= pins("dev.txt")


@pytest.mark.parametrize(
    "parts",
    [
        (b"see ", b"home", b"kim/project/x"),
        (b"'", b"root", b".cache'"),
        (b'"', b"work", b'project/README.md"'),
        (b"", b"opt", b"tools/a.whl"),
        (b"", b"tmp", b"scratch/x"),
        (b"'C:\\", b"Users\\kim", b"x'"),
    ],
)
def test_the_pattern_matches_paths(parts: tuple[bytes, bytes, bytes]):
    """The paths are split, so that other checks do not find them here."""
    before, root, after = parts
    joint = b"" if before.endswith(b"\\") else b"/"
    assert ONE_MACHINE.search(before + joint + root + b"/" + after)


@pytest.mark.parametrize(
    "text",
    [b"/usr/bin/git", b"/dev/null", b"/tmp/x", b"file:///home/ada/project/a.py", b"a/root/b", b"/opt/homebrew/bin"],
)
def test_the_pattern_ignores_examples(text: bytes):
    assert not ONE_MACHINE.search(text)
