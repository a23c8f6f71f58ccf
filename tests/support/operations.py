"""Count what a program does, to show that its cost grows with its input and no faster. No clock is involved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any


def counted(work: Callable[[], object]) -> int:
    """Run ``work``; return the number of executed bytecodes plus the bytes that it read and wrote, in this process.

    Bytecodes show loops in Python; bytes show files that are written as a whole again and again.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before, moved = sys.gettrace(), _moved()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count + _moved() - moved


def require_linear(cost: Callable[[int], int], size: int) -> None:
    """Fail if the cost for one, two and three times ``size`` grows by more each time, as a quadratic one does.

    With n² in the cost, the second step is larger than the first by 2·size². Waiting for other processes adds some.
    """
    first, second, third = (cost(size * times) for times in (1, 2, 3))
    assert third - second <= 1.3 * (second - first), f"not linear: {first}, {second}, {third}"


def _moved() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"]) + int(fields["wchar"])
