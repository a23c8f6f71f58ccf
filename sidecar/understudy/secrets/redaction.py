"""Replace known secrets, in all common encodings, by ``<secret:NAME>``.

A key appears in many encodings: an error body quotes it, a URL percent-encodes it, JSON escapes it,
a dump prints it in hex, an ``Authorization: Basic`` header contains it in base64, at one of three
offsets. All of these are literal strings once the value is known, so one compiled alternation finds
them without false positives. Limits: an unknown value is not found,
and in base64 up to two characters at each edge are mixed with their neighbours and stay.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, AnyStr, Generic, overload
from urllib.parse import quote, quote_plus

MIN_LENGTH = 8
"""Shorter values would match by chance everywhere; no API key is that short."""

_HEAD = 4
"""How many characters must match before a whole form is compared."""


class Redactor:
    """Replace secrets in text, bytes and JSON values. Immutable and thread-safe."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take the secrets as ``{name: value}``; names appear in the output, values never do."""
        forms: dict[str, str] = {}
        for name, value in secrets.items():
            label = f"<secret:{re.sub(r'[^A-Za-z0-9._-]', '_', name)}>"
            for part in _parts(value):
                for form in _forms(part):
                    forms.setdefault(form, label)
        self._text = _Matcher(forms)
        self._bytes = _Matcher({form.encode("utf-8", "surrogatepass"): label.encode() for form, label in forms.items()})

    def __bool__(self) -> bool:
        """Return whether there are any secrets."""
        return bool(self._text.labels)

    @overload
    def redact(self, data: str) -> str: ...
    @overload
    def redact(self, data: bytes) -> bytes: ...
    def redact(self, data: str | bytes) -> str | bytes:
        """Return ``data`` with every known value replaced."""
        return self._text.replace(data) if isinstance(data, str) else self._bytes.replace(data)

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value with every string in it, keys included, redacted."""
        if isinstance(value, str):
            return self._text.replace(value)
        if isinstance(value, dict):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_json(item) for item in value]
        return value

    def text_stream(self) -> TextStream:
        """Return a redactor for one text that arrives in pieces."""
        return TextStream(self._text)


class _Matcher(Generic[AnyStr]):
    """One alternation over all forms, for text or for bytes, the longest form first."""

    def __init__(self, labels: dict[AnyStr, AnyStr]) -> None:
        self.labels: dict[AnyStr, AnyStr] = labels
        self.pattern: re.Pattern[AnyStr] | None = None
        self.heads: re.Pattern[AnyStr] | None = None
        self.by_head: dict[AnyStr, list[AnyStr]] = {}
        self.longest = max(map(len, labels), default=0)
        if not labels:
            return
        self.pattern = _alternation(sorted(labels, key=lambda form: (-len(form), form)))
        for form in labels:
            for length in range(1, _HEAD + 1):
                self.by_head.setdefault(form[:length], []).append(form)
        self.heads = _alternation(sorted({form[:_HEAD] for form in labels}))

    def replace(self, data: AnyStr) -> AnyStr:
        if self.pattern is None:
            return data
        return self.pattern.sub(lambda match: self.labels[match[0]], data)

    def hold_from(self, data: AnyStr, start: int) -> int:
        """Return the first index from ``start`` on from which the rest could be the beginning of a form."""
        end = len(data)
        if self.heads is None:
            return end
        position = max(start, end - self.longest + 1)
        # All occurrences, overlapping ones too, of a form's first characters; then the last few, which are shorter.
        while position <= end - _HEAD:
            match = self.heads.search(data, position)
            if match is None:
                break
            if self._could_begin(data[match.start() :], data[match.start() : match.start() + _HEAD]):
                return match.start()
            position = match.start() + 1
        for index in range(max(start, end - _HEAD + 1, 0), end):
            if data[index:] in self.by_head:
                return index
        return end

    def _could_begin(self, tail: AnyStr, head: AnyStr) -> bool:
        return any(len(form) > len(tail) and form.startswith(tail) for form in self.by_head[head])


class TextStream:
    """Redact a text that arrives in pieces.

    It holds back only what could be the beginning of a secret that continues in the next piece, at most the length of
    the longest form. The joined output equals ``Redactor.redact`` of the whole.
    """

    def __init__(self, matcher: _Matcher[str]) -> None:
        """Begin with nothing held back; ``Redactor.text_stream`` makes one."""
        self._matcher = matcher
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain so far (possibly nothing)."""
        matcher = self._matcher
        if matcher.pattern is None:
            return piece
        data = self._held + piece
        out: list[str] = []
        position = 0
        hold = matcher.hold_from(data, 0)
        for match in matcher.pattern.finditer(data):
            # The leftmost match wins; one that begins where a longer form could begin must wait.
            if match.start() >= hold:
                break
            out += [data[position : match.start()], matcher.labels[match[0]]]
            position = match.end()
            if position > hold:
                hold = matcher.hold_from(data, position)
        out.append(data[position:hold])
        self._held = data[hold:]
        return "".join(out)

    def finish(self) -> str:
        """Return the rest that was held back."""
        held, self._held = self._held, ""
        return self._matcher.replace(held)


def _alternation(literals: Iterable[AnyStr]) -> re.Pattern[AnyStr]:
    escaped = [re.escape(literal) for literal in literals]
    joiner = b"|" if isinstance(escaped[0], bytes) else "|"
    return re.compile(joiner.join(escaped))


def _parts(value: str) -> list[str]:
    """Return the value and, of a value of several lines (a private key), each line that is long enough."""
    value = value.strip()
    lines = [line.strip() for line in value.splitlines()]
    long_lines = [line for line in lines if len(line) >= 2 * MIN_LENGTH] if len(lines) > 1 else []
    return [part for part in (value, *long_lines) if len(part) >= MIN_LENGTH]


def _forms(value: str) -> set[str]:
    """Return every encoding of ``value`` to search for; all are at least ``MIN_LENGTH`` long."""
    data = value.encode("utf-8", "surrogatepass")
    forms = {value, data.hex(), data.hex().upper()}
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        forms |= {text, text.replace("/", "\\/"), json.dumps(text)[1:-1]}
    for text in (quote(data, safe=""), quote(data), quote_plus(data)):
        forms |= {text, re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), text)}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode("ascii")
        # The first and last characters also encode the neighbouring bytes.
        first = (0, 2, 3)[offset]
        last = len(encoded.rstrip("=")) - (0 if (offset + len(data)) % 3 == 0 else 1)
        core = encoded[first:last]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= MIN_LENGTH}
