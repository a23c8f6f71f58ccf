"""Read the executed lines that JavaScript test runners wrote, of each test file where they tell.

The files come from processes that run tests: they are not trusted, and what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from understudy.judge.mutation.runners.executed_lines import inline_map, lines_by_istanbul, lines_by_v8, source_map
from understudy.judge.outcomes.runner_reports import read_json

_MOST_REPORTS = 2000
_MOST_CHARACTERS = 16 * 1024 * 1024

ByTestFile = Mapping[str, Mapping[str, frozenset[int]]]
"""Test file → file (relative to the tree) → executed lines."""


@dataclass(frozen=True, kw_only=True)
class RecordedLines:
    """What one run executed."""

    lines: Mapping[str, frozenset[int]]
    """File (relative to the tree) → executed lines; a file that is not here is unknown."""
    by_test: ByTestFile = field(default_factory=dict)
    """By the absolute path of each test file; empty if that is unknown of any."""


def recorded_lines(folder: Path, files: Mapping[str, str], *, complete: bool) -> RecordedLines:
    """Return the executed lines of ``files``: absolute path → path in the tree.

    ``complete``: a file about which no process reports was not loaded; otherwise its lines are unknown.
    """
    executed: dict[str, set[int]] = {}
    groups: dict[str, tuple[set[str], dict[str, set[int]]]] = {}
    reports = sorted(folder.glob("*.json"))
    whole = len(reports) <= _MOST_REPORTS
    for path in reports[:_MOST_REPORTS]:
        report = read_json(path)
        if path.name == "coverage-final.json":
            for name, lines in lines_by_istanbul(report).items():
                if name in files:
                    executed.setdefault(files[name], set()).update(lines)
            continue
        test = report.get("test")
        # Modules may be loaded once for all test files of a worker.
        tests, of_group = groups.setdefault(str(report.get("worker", test)), (set(), {}))
        if isinstance(test, str):
            tests.add(test)
        else:
            whole = False
        for name, ran in _executed(report, files):
            if name in files:
                of_group.setdefault(files[name], set()).update(ran)
                executed.setdefault(files[name], set()).update(ran)
    by_test: dict[str, dict[str, set[int]]] = {}
    for tests, of_group in groups.values():
        for test in tests:
            of_test = by_test.setdefault(test, {})
            for file, ran in of_group.items():
                of_test.setdefault(file, set()).update(ran)
    reported = files.values() if complete and reports else executed.keys()
    return RecordedLines(
        lines={file: frozenset(executed.get(file, ())) for file in reported},
        by_test={test: {file: frozenset(ran) for file, ran in of.items()} for test, of in by_test.items()}
        if whole
        else {},
    )


def _executed(report: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[tuple[str, set[int]]]:
    coverage = report.get("coverage")
    if isinstance(coverage, dict):
        for name, lines in lines_by_istanbul(coverage).items():
            yield name, set(lines)
    elif "scripts" in report:
        yield from _of_vitest(report)
    else:
        yield from _of_node(report, files)


def _of_vitest(report: Mapping[str, Any]) -> Iterator[tuple[str, set[int]]]:
    scripts = report["scripts"]
    for script in scripts if isinstance(scripts, list) else []:
        if not isinstance(script, dict):
            continue
        file, text, functions = script.get("file"), script.get("source"), script.get("functions")
        if isinstance(file, str) and isinstance(text, str) and isinstance(functions, list):
            mapped = inline_map(text)
            if mapped is not None:
                yield file, lines_by_v8(functions, text, file=file, mapped=mapped)


def _of_node(report: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[tuple[str, set[int]]]:
    """Yield the lines of a report of ``NODE_V8_COVERAGE``, which has source maps but no sources."""
    maps = report.get("source-map-cache")
    scripts = report.get("result")
    for script in scripts if isinstance(scripts, list) else []:
        url = script.get("url") if isinstance(script, dict) else None
        if not isinstance(url, str) or not isinstance(script.get("functions"), list):
            continue
        file = unquote(urlsplit(url).path) if url.startswith("file:") else url
        if file not in files:
            continue
        entry = maps.get(url) if isinstance(maps, dict) else None
        mapped = source_map(entry.get("data")) if isinstance(entry, dict) else None
        if mapped is None:
            text = Path(file).read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")
        else:
            lengths = entry.get("lineLengths") if isinstance(entry, dict) else None
            sizes = [max(0, size) for size in lengths if isinstance(size, int)] if isinstance(lengths, list) else []
            if sum(sizes) > _MOST_CHARACTERS:
                continue
            text = "\n".join("x" * size for size in sizes)
        yield file, lines_by_v8(script["functions"], text, file=file, mapped=mapped)
