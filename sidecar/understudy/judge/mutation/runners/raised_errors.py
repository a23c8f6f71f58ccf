"""Read in the output of tests whether the mutated code itself raised the error that made the first of them fail."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from understudy.judge.deciding import inline_tests

_PYTHON_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t]+.*\n)+)")
_PYTHON_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+', re.MULTILINE)
_RUST = re.compile(r"panicked at (?:.*, )?([^\s:]+\.rs):(\d+)")
_GO_PANIC = re.compile(r"\bpanic: |\bfatal error: ")
_GO_FRAME = re.compile(r"([^\s\"\\]+\.go):\d+")
_GO_OWN = ("/src/runtime/", "/src/testing/")
_SCRIPT_FRAME = re.compile(r"([^\s()\"']+\.[cm]?[jt]sx?):\d+:\d+")
_SCRIPT_TEST = re.compile(r"^\s*(?:location: |test at ).*$", re.MULTILINE)
"""Where ``node --test`` says that a test is, which is not where it failed."""
_SCRIPT_OWN = ("/node_modules/", "node:")


def raised_in(path: str, content: bytes, output: str) -> bool:
    """Return whether the first error in ``output`` was raised by the code of a file; False if that cannot be read.

    ``content`` is that of the file when the tests ran. What its own tests raise is not raised by its code.
    """
    suffix = PurePosixPath(path).suffix
    found = _first_place(suffix, output)
    if found is None:
        return False
    if suffix == ".rs" and (place := _RUST.search(output)) and inline_tests.has_in_line(path, content, int(place[2])):
        return False
    return found == path or found.endswith(f"/{path}") or path.endswith(f"/{found.removeprefix('./')}")


def _first_place(suffix: str, output: str) -> str | None:
    match suffix:
        case ".py":
            trace = _PYTHON_TRACEBACK.search(output)
            frames = _PYTHON_FRAME.findall(trace[1]) if trace is not None else []
            return frames[-1] if frames else None
        case ".rs":
            place = _RUST.search(output)
            return place[1] if place is not None else None
        case ".go":
            panic = _GO_PANIC.search(output)
            frames = _GO_FRAME.findall(output, panic.end()) if panic is not None else []
            return next((frame for frame in frames if not any(own in frame for own in _GO_OWN)), None)
        case _:
            frames = _SCRIPT_FRAME.findall(_SCRIPT_TEST.sub("", output))
            return next((frame for frame in frames if not any(own in frame for own in _SCRIPT_OWN)), None)
