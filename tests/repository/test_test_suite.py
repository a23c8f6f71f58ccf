"""The tests themselves: where they can run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_inside_a_run_the_suite_fails_once_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_layers.py"],
        cwd=TOP,
        env={**os.environ, "UNDERSTUDY_DELEGATION": "20261127-101500-abcde"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stdout
    printed = done.stdout + done.stderr
    assert printed.count("refused inside a run of Understudy (20261127-101500-abcde)") == 1, printed
