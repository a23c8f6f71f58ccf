"""Quick fixes for findings: replace a misspelt name, remove a key without effect, and others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from understudy.api.config_language.diagnostics import Finding
from understudy.api.config_language.text_positions import Span, Text
from understudy.api.config_language.toml_literals import key, string
from understudy.api.config_language.toml_scanner import Document, Entry, Part, Path, Value, scan
from understudy.config.locations import FileKind
from understudy.config.parsing.file_schema import SPELLINGS

_OURS = {theirs: ours for ours, theirs in SPELLINGS.items()}


@dataclass(frozen=True)
class Edit:
    """Replace the text in ``span`` with ``text``."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix:
    """A quick fix: edits of one file that do not overlap."""

    title: str
    edits: tuple[Edit, ...]
    preferred: bool = False
    """Whether this is most likely the fix that the user wants."""


def fixes(kind: FileKind, text: str, finding: Finding) -> list[Fix]:
    """Return the fixes for a finding of ``diagnostics`` about exactly this text, the likeliest first."""
    content = Text(text)
    region = content.toml(kind)
    if region is None or not finding.path:
        return []
    document = scan(content.text, *region)
    path = _written(document, finding.path)
    if path is None:
        return []
    place = _Fixes(content, document, path)
    match finding.code:
        case "unknown_key":
            found = [*place.renamed(finding.suggestions), *place.removed()]
        case "unknown_name" | "not_allowed" | "value" if finding.suggestions:
            # If keys are names (recipes in `defaults.recipes`), the finding has the range of the key.
            at_key = any(content.span(part.start, part.end) == finding.span for part in place.parts)
            found = [*(place.renamed(finding.suggestions) if at_key else place.replaced(finding))]
        case "no_effect" | "duplicate" if finding.code == "no_effect" or _is_key(content, place.parts, finding):
            found = [*place.removed()]
        case "not_a_list":
            found = [*place.made_list()]
        case "secret" if len(path) >= 2 and path[-2] == "env":
            found = [*place.referred()]
        case _:
            found = []
    return found


def _is_key(content: Text, parts: list[Part], finding: Finding) -> bool:
    return any(content.span(part.start, part.end) == finding.span for part in parts)


def _written(document: Document, path: Path) -> Path | None:
    """Return the path with the names that the file uses: fields may also have the names of other tools."""
    paths = {part.path for part in document.parts} | set(document.values)
    if path in paths:
        return path
    ours = _ours(path)
    return next((found for found in paths if _ours(found) == ours), None)


def _ours(path: Path) -> Path:
    return tuple(
        _OURS.get(step, step) if isinstance(step, str) and depth < 4 else step for depth, step in enumerate(path)
    )


class _Fixes:
    def __init__(self, content: Text, document: Document, path: Path) -> None:
        self.content = content
        self.document = document
        self.path = path
        self.parts = [part for part in document.parts if part.path == path]
        self.name = str(path[-1])

    def renamed(self, suggestions: tuple[str, ...]) -> Iterator[Fix]:
        """Offer other names for the key, replacing every occurrence."""
        if not self.parts:
            return
        for number, name in enumerate(suggestions):
            edits = tuple(Edit(self.content.span(part.start, part.end), key(name)) for part in self.parts)
            yield Fix(f"Change `{self.name}` to `{name}`", edits, preferred=number == 0)

    def replaced(self, finding: Finding) -> Iterator[Fix]:
        """Offer the suggestions as the value."""
        value = self.document.values.get(self.path)
        if value is None or value.kind not in {"string", "bare"}:
            return
        for number, name in enumerate(finding.suggestions):
            edit = Edit(self.content.span(value.start, value.end), string(name, self._quote(value)))
            yield Fix(f"Change to `{name}`", (edit,), preferred=number == 0)

    def referred(self) -> Iterator[Fix]:
        """Offer a reference to the environment variable instead of its value."""
        value = self.document.values.get(self.path)
        if value is not None and value.kind == "string":
            edit = Edit(self.content.span(value.start, value.end), f"{{ from_env = {string(self.name)} }}")
            yield Fix(f"Read `{self.name}` from your environment", (edit,), preferred=True)

    def made_list(self) -> Iterator[Fix]:
        """Offer ``[[name]]`` for ``[name]``."""
        headers = [header for header in self.document.headers if header.path == self.path and not header.array]
        value = self.document.values.get(self.path)
        text = self.content.text
        if value is not None and value.kind == "table" and value.closed:
            span = self.content.span(value.start, value.end)
            yield Fix("Wrap in an array", (Edit(span, f"[{text[value.start : value.end]}]"),), preferred=True)
        elif headers and not any(entry.table == () and entry.path[:1] == self.path for entry in self.document.entries):
            edits = tuple(
                Edit(self.content.span(header.start, header.end), f"[{text[header.start : header.end]}]")
                for header in headers
            )
            yield Fix(f"Change to `[[{self.name}]]`", edits, preferred=True)

    def removed(self) -> Iterator[Fix]:
        """Offer to remove every occurrence of the key, with everything below it."""
        stretches = [*self._headers(), *self._statements(), *self._inline()]
        if stretches:
            edits = tuple(Edit(self.content.span(start, end), "") for start, end in _merged(stretches))
            yield Fix(f"Remove `{self.name}`", edits)

    def _is_removed(self, entry: Entry) -> bool:
        return any(part.path == self.path for part in entry.parts)

    def _headers(self) -> Iterator[tuple[int, int]]:
        headers = self.document.headers
        for number, header in enumerate(headers):
            if any(part.path == self.path for part in header.parts):
                following = headers[number + 1].start if number + 1 < len(headers) else self.document.end
                yield self.content.line_start(header.start), self._line_or(following)

    def _line_or(self, offset: int) -> int:
        return offset if offset == self.document.end else self.content.line_start(offset)

    def _statements(self) -> Iterator[tuple[int, int]]:
        for entry in self.document.entries:
            if entry.inline or not self._is_removed(entry):
                continue
            start, end = self.content.line_start(entry.start), self.content.next_line(entry.end)
            yield max(start, self.document.start), min(end, self.document.end)

    def _inline(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of removed entries in inline tables, each run of them with its comma."""
        for table in list(self._tables()):
            entries = table.entries
            gone = [self._is_removed(entry) for entry in entries]
            number = 0
            while number < len(entries):
                if not gone[number]:
                    number += 1
                    continue
                last = number
                while last + 1 < len(entries) and gone[last + 1]:
                    last += 1
                if last + 1 < len(entries):
                    yield entries[number].start, entries[last + 1].start
                elif number > 0:
                    yield entries[number - 1].end, entries[last].end
                else:
                    yield entries[number].start, entries[last].end
                number = last + 1

    def _tables(self) -> Iterator[Value]:
        waiting = [entry.value for entry in self.document.entries if entry.value is not None and not entry.inline]
        while waiting:
            value = waiting.pop()
            if value.kind == "table":
                yield value
            waiting += value.items
            waiting += [entry.value for entry in value.entries if entry.value is not None]

    def _quote(self, value: Value) -> str:
        return "'" if self.content.text.startswith("'", value.start) else '"'


def _merged(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
