"""Render the Markdown that Understudy writes for a terminal: headings, lists, tables, fences and details."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import click

from understudy.frontends.cli.terminal import terminal

_HEADING = re.compile(r"#{1,6} ")
_FENCE = re.compile(r"(`{3,})")
_SUMMARY = re.compile(r"<details><summary>(.*)</summary>")
_CODE = re.compile(r"(?<!\\)(`+)(.+?)\1")
_BOLD = re.compile(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*")
_ESCAPED = re.compile(r"\\([^A-Za-z0-9\s])")


def rendered(markdown: str, paint: terminal.Paint, columns: int) -> str:
    """Return sanitised ``markdown`` as text for a terminal of ``columns``, without its marks."""
    return "\n".join(_rows(markdown.removesuffix("\n").split("\n"), paint, columns)) + "\n"


def _rows(lines: Sequence[str], paint: terminal.Paint, columns: int) -> Iterator[str]:
    fence = ""
    table: list[str] = []
    for line in lines:
        if fence:
            fence = "" if line.startswith(fence) else fence
            if fence:
                yield f"    {line}"
            continue
        if line.startswith("|"):
            table.append(line)
            continue
        yield from _table(table, paint, columns)
        table = []
        if opened := _FENCE.match(line):
            fence = opened[1]
        elif heading := _HEADING.match(line):
            yield terminal.wrap(paint(_inline(line[heading.end() :], paint), bold=True), columns)
        elif summary := _SUMMARY.match(line):
            yield _inline(summary[1], paint)
        elif line != "</details>":
            yield terminal.wrap(terminal.short_ids(_inline(line, paint)), columns)
    yield from _table(table, paint, columns)


def _inline(text: str, paint: terminal.Paint) -> str:
    """Return a line without the marks in it."""
    shown, end = "", 0
    for code in _CODE.finditer(text):
        shown += f"{_words(text[end : code.start()], paint)}{code[2]}"
        end = code.end()
    return shown + _words(text[end:], paint)


def _words(text: str, paint: terminal.Paint) -> str:
    return _ESCAPED.sub(r"\1", _BOLD.sub(lambda bold: paint(bold[1], bold=True), text))


def _table(lines: Sequence[str], paint: terminal.Paint, columns: int) -> Iterator[str]:
    """Yield a table in columns that are as wide as their cells: names of tests are for copying, and never cut.

    Below a name that is too wide for the terminal, its row continues on the next line; other rows stay as they are.
    """
    rows = [
        [_inline(cell.strip(), paint) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if not re.fullmatch(r"[|:-]+", line)
    ]
    widths = [
        max(terminal.width_of(click.unstyle(cell)) for cell in column) for column in zip_longest(*rows, fillvalue="")
    ]
    if widths:
        widest = widths.index(max(widths))
        beside = sum(width + 2 for width in widths) - 2 - widths[widest]
        widths[widest] = min(widths[widest], max(0, columns - beside))
    for number, row in enumerate(rows):
        text = ""
        for cell, width in zip(row, widths, strict=False):
            text += cell
            missing = width - terminal.width_of(click.unstyle(cell))
            if missing < 0:
                yield text
                text, missing = "", sum(widths[: widest + 1]) + 2 * widest
            text += " " * (missing + 2)
        yield text.rstrip() if number else paint(text.rstrip(), dim=True)
