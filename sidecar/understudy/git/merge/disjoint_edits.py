"""Detect, without running git, user edits that do not overlap the selected hunks.

An accept takes little more time than one start of git, so avoiding a start is worth this code. A file that the user
edited elsewhere is the usual case, and after the first accepted hunk every file is one. Only the clear case is decided
here. If two equivalent diffs could merge differently (the edits touch, could slide towards each other over equal lines,
or the user may have made the same change already), the result is None, and the caller runs git.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from understudy.git.merge.line_edits import Edit

STEPS = 20_000
"""Lines compared before giving up: a few milliseconds, as long as git takes."""


def disjoint_edits(base: Sequence[bytes], chosen: Sequence[Edit], now: Sequence[bytes]) -> list[Edit] | None:
    """Return the edits from ``base`` to ``now`` if they do not overlap the ``chosen`` edits, else None."""
    user = difference(base, now)
    if user is None or not all(_clear(base, edit, user) for edit in chosen):
        return None
    gained, lost = _net(base, user)
    for edit in chosen:
        more, less = _net(base, [edit])
        if more <= gained and less <= lost:
            return None  # the user may have made it already, elsewhere among equal lines
    return user


def difference(old: Sequence[bytes], new: Sequence[bytes], steps: int = STEPS) -> list[Edit] | None:
    """Return a smallest set of edits from ``old`` to ``new`` (E. W. Myers 1986), None beyond ``steps`` steps."""
    first, most = 0, min(len(old), len(new))
    while first < most and old[first] == new[first]:
        first += 1
    last = 0
    while last < most - first and old[-1 - last] == new[-1 - last]:
        last += 1
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    if not a or not b:
        return [Edit(first, first + len(a), tuple(b))] if a or b else []
    reached = {1: 0}
    rounds: list[dict[int, int]] = []
    for distance in range(len(a) + len(b) + 1):
        rounds.append(dict(reached))
        steps -= distance * 2
        for diagonal in range(-distance, distance + 1, 2):
            down = diagonal == -distance or (
                diagonal != distance and reached[diagonal - 1] < reached.get(diagonal + 1, -1)
            )
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            y = start = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            steps -= y - start
            reached[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _walked_back(rounds, a, b, first)
        if steps < 0:
            return None
    return None


def _walked_back(rounds: list[dict[int, int]], a: Sequence[bytes], b: Sequence[bytes], first: int) -> list[Edit]:
    """Return the edits of the path that was found, adjacent ones joined."""
    x, y = len(a), len(b)
    spans: list[tuple[int, int, int, int]] = []
    for distance in range(len(rounds) - 1, 0, -1):
        before = rounds[distance]
        diagonal = x - y
        down = diagonal == -distance or (diagonal != distance and before[diagonal - 1] < before.get(diagonal + 1, -1))
        came = diagonal + 1 if down else diagonal - 1
        old_x, old_y = before[came], before[came] - came
        new_x, new_y = (old_x, old_y + 1) if down else (old_x + 1, old_y)
        if spans and (spans[-1][0], spans[-1][2]) == (new_x, new_y):
            _, end, _, end_y = spans.pop()
            spans.append((old_x, end, old_y, end_y))
        else:
            spans.append((old_x, new_x, old_y, new_y))
        x, y = old_x, old_y
    return [Edit(first + start, first + end, tuple(b[top:bottom])) for start, end, top, bottom in reversed(spans)]


def _clear(base: Sequence[bytes], edit: Edit, user: Sequence[Edit]) -> bool:
    start, end = _reach(base, edit)
    for other in user:
        first, last = _reach(base, other)
        if first <= end and start <= last:
            return False
    return True


def _reach(base: Sequence[bytes], edit: Edit) -> tuple[int, int]:
    """Return how far up and down an edit could move because its lines equal those around it."""
    start, end, count = edit.start, edit.end, len(edit.lines)
    size = end - start
    up = down = 0
    if count:
        while up < start and base[start - 1 - up] == _cyclic(edit.lines, base, start, up):
            up += 1
        while end + down < len(base) and base[end + down] == (
            edit.lines[down] if down < count else base[end + down - count]
        ):
            down += 1
    if size:
        gone = 0
        while gone < start and base[start - 1 - gone] == base[end - 1 - gone]:
            gone += 1
        up, gone = max(up, gone), 0
        while end + gone < len(base) and base[start + gone] == base[end + gone]:
            gone += 1
        down = max(down, gone)
    return start - up, end + down


def _cyclic(lines: Sequence[bytes], base: Sequence[bytes], start: int, up: int) -> bytes:
    """Return the last inserted line after the edit moved up by ``up``."""
    return lines[-1 - up] if up < len(lines) else base[start - 1 - up + len(lines)]


def _net(base: Sequence[bytes], edits: Sequence[Edit]) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return which lines were added and removed in total, independent of how the difference is split."""
    gained: Counter[bytes] = Counter()
    lost: Counter[bytes] = Counter()
    for edit in edits:
        gained.update(edit.lines)
        lost.update(base[edit.start : edit.end])
    return gained - lost, lost - gained
