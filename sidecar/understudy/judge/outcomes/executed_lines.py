"""Read which lines of a JavaScript or TypeScript file ran, from what V8 and istanbul counted.

The data comes from the processes that run the tests: it is not trusted, and what cannot be read is left out.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS = {character: value for value, character in enumerate(_BASE64)}
_INLINE_MAP = re.compile(r"//# sourceMappingURL=data:application/json[^,]*;base64,([\w+/=]+)")
_VITE_WRAPPER = re.compile(r"'use strict';async \([^)]*\)=>\{\{")
_SILENT = frozenset(" \t\r\n{}();,")
"""Characters that do nothing by themselves."""
_MOST_UNITS = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SourceMap:
    """Where the text of a transformed file comes from."""

    segments: Sequence[tuple[int, int, int, int]]
    """Line and column in the transformed text, index of the source, line in the source; all from 0."""
    sources: Sequence[str]


def lines_by_v8(functions: Iterable[Any], text: str, *, file: str, mapped: SourceMap | None = None) -> set[int]:
    """Return the lines of ``file`` that ran, from 1.

    ``functions`` is what V8 counted in the text that it executed. ``mapped`` leads from that text to the file; without
    it, they are the same.
    """
    # V8 counts in UTF-16 units.
    units = text.encode("utf-16-le", "surrogatepass")
    length = len(units) // 2
    if length > _MOST_UNITS:
        return set()
    ran = _painted(functions, length)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    if length != len(text):
        widths = list(itertools.accumulate((2 if ord(character) > 0xFFFF else 1 for character in text), initial=0))
        starts = [widths[start] for start in starts]
    if mapped is None:
        silent = [character in _SILENT for character in text for _ in range(2 if ord(character) > 0xFFFF else 1)]
        return {bisect.bisect_right(starts, at) for at in range(length) if ran[at] and not silent[at]}
    indices = _source_indices(mapped, file)
    prefix = _VITE_WRAPPER.match(text)
    shift = prefix.end() if prefix is not None else 0
    lines = set()
    for line, column, source, source_line in mapped.segments:
        if source not in indices or line >= len(starts):
            continue
        at = starts[line] + column + (shift if line == 0 else 0)
        if at < length and ran[at]:
            lines.add(source_line + 1)
    return lines


def _painted(functions: Iterable[Any], length: int) -> bytearray:
    """Return for each position whether it ran: that is decided by the innermost range around it."""
    ranges = []
    for function in functions:
        for entry in function.get("ranges", ()) if isinstance(function, dict) else ():
            if isinstance(entry, dict):
                start, end = entry.get("startOffset"), entry.get("endOffset")
                if isinstance(start, int) and isinstance(end, int) and 0 <= start < end:
                    ranges.append((start, -min(end, length), 1 if entry.get("count") else 0))
    ran = bytearray(length)
    for start, end, did in sorted(ranges, key=lambda painted: painted[:2]):
        if start < -end:
            ran[start:-end] = bytes([did]) * (-end - start)
    return ran


def _source_indices(mapped: SourceMap, file: str) -> set[int]:
    if len(mapped.sources) == 1:
        return {0}
    name = os.path.basename(file)  # noqa: PTH119 - a name in a map, not a file
    return {index for index, source in enumerate(mapped.sources) if source.split("?")[0].rpartition("/")[2] == name}


def inline_map(text: str) -> SourceMap | None:
    """Return the source map in the last comment of a transformed text; None if there is none."""
    maps = _INLINE_MAP.findall(text)
    if not maps:
        return None
    try:
        return source_map(json.loads(base64.b64decode(maps[-1], validate=True)))
    except (ValueError, binascii.Error, RecursionError):
        return None


def source_map(data: Any) -> SourceMap | None:
    """Return a decoded source map (revision 3); None for other data."""
    if not isinstance(data, dict) or not isinstance(data.get("mappings"), str):
        return None
    sources = data.get("sources")
    return SourceMap(
        segments=list(_segments(data["mappings"])),
        sources=[str(source) for source in sources] if isinstance(sources, list) else [],
    )


def _segments(mappings: str) -> Iterator[tuple[int, int, int, int]]:
    source = source_line = 0
    for line, group in enumerate(mappings.split(";")):
        column = 0
        for segment in group.split(","):
            values = _values(segment)
            if not values:
                continue
            column += values[0]
            if len(values) >= 4:
                source += values[1]
                source_line += values[2]
                yield line, column, source, source_line


def _values(segment: str) -> list[int]:
    """Return the numbers of a segment: base 64, five bits a digit, the lowest bit is the sign."""
    values = []
    number = shift = 0
    for character in segment:
        digit = _DIGITS.get(character)
        if digit is None:
            return []
        number |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            values.append(-(number >> 1) if number & 1 else number >> 1)
            number = shift = 0
    return values


def lines_by_istanbul(report: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    """Return file → lines of which a statement ran, from istanbul's JSON report."""
    executed = {}
    for name, entry in report.items():
        if not isinstance(entry, dict):
            continue
        places, counts = entry.get("statementMap"), entry.get("s")
        if not isinstance(places, dict) or not isinstance(counts, dict):
            continue
        lines = set()
        for key, place in places.items():
            start = place.get("start") if isinstance(place, dict) else None
            line = start.get("line") if isinstance(start, dict) else None
            if counts.get(key) and isinstance(line, int):
                lines.add(line)
        executed[name] = frozenset(lines)
    return executed
