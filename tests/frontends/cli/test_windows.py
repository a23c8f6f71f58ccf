"""A native start on Windows, faked: the platform's name, and none of the modules that only POSIX systems have."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# click is imported first, because on Windows it has modules of its own that need the real system.
FAKED = """
import sys
import click
sys.platform = "win32"
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
from understudy.__main__ import main
sys.argv = ["understudy", *sys.argv[1:]]
sys.exit(main())
"""
SENTENCE = "Understudy does not run natively on Windows: install WSL (`wsl --install`) and run it there."


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FAKED, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("arguments", [(), ("serve",), ("worker", "x")])
def test_windows_is_refused_in_one_sentence(arguments: tuple[str, ...]) -> None:
    ended = start(*arguments)
    assert (ended.returncode, ended.stdout, ended.stderr) == (8, "", f"error: {SENTENCE}\n")


def test_programs_get_a_typed_error() -> None:
    ended = start("doctor", "--json")
    assert (ended.returncode, ended.stderr) == (8, "")
    assert json.loads(ended.stdout) == {"error": {"kind": "unsupported_platform", "message": SENTENCE}}
