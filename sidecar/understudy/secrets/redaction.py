"""Replace known secrets, in all common encodings, by ``<secret:NAME>``.

A key appears in many encodings: an error body quotes it, a URL percent-encodes it, JSON escapes it, a page contains
it as HTML, a dump prints it in hex, an ``Authorization: Basic`` header contains it in base64, at one of three offsets,
a terminal wraps it. Limits: an unknown value is not found, and in base64 and base32 up to two
characters at each edge are mixed with their neighbours and stay.

There are three groups: escape sequences of single characters, mixed because encoders escape different ones;
fillers between two characters, which belong to the layout (the end of a wrapped line, a colour); and encodings of the
whole value (hex, base64, base32, lists of bytes), which are literal texts once the value is known.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html.entities import html5
from itertools import chain
from typing import Any, overload
from urllib.parse import quote

MIN_LENGTH = 8
"""Shorter values would match by chance everywhere; no API key is that short."""
_HEAD = 4
"""How many characters must match before a whole form is compared."""
STARTERS = "%&\\="
"""The characters that begin an escape sequence."""
LONGEST_ESCAPE = 48
"""The characters of the longest escape sequence (an emoji, escaped twice)."""
FILLER = r"(?:=?\r?\n[ \t]{0,16}|\x1b\[[0-9;]{0,16}[A-Za-z]|[\u00ad\u200b\u2060\ufeff])"
"""A pattern of what may be between two characters: the end of a wrapped line, a colour, an invisible character."""
OPEN_FILLER = re.compile(r"(?:=?\r?|=?\r?\n[ \t]{0,16}|\x1b(?:\[[0-9;]{0,16})?)\Z")
"""The rest of a text that more text could make, or make longer, a filler."""
LONGEST_FILLER = 20
_FILLER = re.compile(FILLER)
_BEFORE_FILLER = frozenset("=\r\n\x1b\u00ad\u200b\u2060\ufeff")
_LONG = 16
"""Shorter values in other cases would match by chance."""


class Redactor:
    """Replace secrets in text, bytes and JSON values. Immutable and thread-safe."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take the secrets as ``{name: value}``; names appear in the output, values never do."""
        self._matcher = _Matcher(
            [
                (part, f"<secret:{re.sub(r'[^A-Za-z0-9._-]', '_', name)}>")
                for name, value in secrets.items()
                for part in _parts(value)
            ]
        )

    def __bool__(self) -> bool:
        """Return whether there are any secrets."""
        return self._matcher.longest > 0

    @overload
    def redact(self, data: str) -> str: ...
    @overload
    def redact(self, data: bytes) -> bytes: ...
    def redact(self, data: str | bytes) -> str | bytes:
        """Return ``data`` with every known value replaced."""
        if isinstance(data, str):
            return self._matcher.replace(data)
        # Reversible for any bytes.
        return self._matcher.replace(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value with every string in it, keys included, redacted."""
        if isinstance(value, str):
            return self._matcher.replace(value)
        if isinstance(value, dict):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_json(item) for item in value]
        return value

    def text_stream(self) -> TextStream:
        """Return a redactor for one text that arrives in pieces."""
        return TextStream(self._matcher)


class _Matcher:
    """Finds all secrets in a text."""

    def __init__(self, secrets: list[tuple[str, str]]) -> None:
        """Take the secrets as values with their labels."""
        self.longest = 0
        """The characters that an encoding of a secret can have."""
        self._values = dict(secrets)
        self._literals: dict[str, dict[str, str]] = {}
        """Head → text → label."""
        for value, label in secrets:
            self.longest = max(self.longest, len(value) * (LONGEST_ESCAPE + LONGEST_FILLER))
            for text in whole_encodings(value, MIN_LENGTH):
                self._literals.setdefault(text[:_HEAD], {})[text] = label
        self._heads = re.compile(_heads([value for value, _ in secrets], chain(*self._literals.values())))

    def find(self, data: str, start: int = 0) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and label of each form from ``start`` on; of several at one place, the longest."""
        if not self.longest:
            return
        position = start
        while (head := self._heads.search(data, position)) is not None:
            place = head.start()
            end, label = self._longest_at(data, place)
            if end:
                yield place, end, label
            position = end or place + 1

    def replace(self, data: str) -> str:
        out: list[str] = []
        position = 0
        for start, end, label in self.find(data):
            out += [data[position:start], label]
            position = end
        return "".join([*out, data[position:]]) if position else data

    def hold_from(self, data: str, start: int) -> int:
        """Return the first index from ``start`` on at which more text could make or change a form."""
        end = len(data)
        if not self.longest:
            return end
        position = max(start, end - self.longest)
        # A head that the end of the text may have cut off is not searched for.
        while position < (certain := max(start, end - _HEAD - LONGEST_ESCAPE - LONGEST_FILLER)):
            head = self._heads.search(data, position)
            if head is None or head.start() >= certain:
                break
            if self._could_change(data, head.start()):
                return head.start()
            position = head.start() + 1
        for index in range(max(position, certain), end):
            if self._could_change(data, index):
                return index
        return end

    def _longest_at(self, data: str, start: int) -> tuple[int, str]:
        """Return the end and label of the longest form at ``start``; 0 when there is none."""
        matches = [
            (start + len(text), label) for text, label in self._literals_at(data, start) if data.startswith(text, start)
        ]
        matches += [(end, label) for value, label in self._values.items() for end in _read(value, data, start)[0]]
        return max(matches, key=lambda match: match[0], default=(0, ""))

    def _could_change(self, data: str, start: int) -> bool:
        """Return whether text after ``data`` could make or change a form at ``start``."""
        rest = data[start:]
        if any(len(text) > len(rest) and text.startswith(rest) for text, _ in self._literals_at(data, start)):
            return True
        return any(_read(value, data, start)[1] for value in self._values)

    def _literals_at(self, data: str, start: int) -> Iterable[tuple[str, str]]:
        head = data[start : start + _HEAD]
        if len(head) == _HEAD:
            return self._literals.get(head, {}).items()
        return (
            literal
            for beginning, texts in self._literals.items()
            if beginning.startswith(head)
            for literal in texts.items()
        )


def _read(value: str, data: str, start: int) -> tuple[set[int], bool]:
    """Return where a value that is written at ``start`` may end, and whether more text could make it one."""
    ends, is_open = {start}, False
    for character in value:
        # An escape sequence may also be the text itself, so one text can be read in several ways.
        following: set[int] = set()
        for end in ends:
            if end > start and OPEN_FILLER.match(data, end) is not None:
                is_open = True
            for place in (end, *(fillers(data, end) if end > start else ())):
                if place == len(data):
                    is_open = True
                    continue
                if data[place] == character or (data[place] == "+" and character == " "):  # "+" in the data of a form
                    following.add(place + 1)
                if data[place] in STARTERS:
                    for escape in escapes(character):
                        if data.startswith(escape, place):
                            following.add(place + len(escape))
                        elif len(data) - place < len(escape):
                            is_open = is_open or escape.startswith(data[place:])
        ends = following
        if not ends:
            break
    return ends, is_open


def _heads(values: list[str], literals: Iterable[str]) -> str:
    """Return a pattern of the places where a value or a literal may begin; it matches at others, too."""
    later: dict[str, list[set[str]]] = {}
    for text in values:
        for first in " +" if text[0] == " " else text[0]:
            for characters, character in zip(
                later.setdefault(first, [set() for _ in range(_HEAD - 1)]), text[1:_HEAD], strict=False
            ):
                characters.update(" +" if character == " " else character)
    patterns = []
    starters = re.escape(STARTERS)
    for first, sets in later.items():
        rest = ""
        for characters in reversed(sets):
            rest = f"{FILLER}?(?:[{starters}]|{_one_of(characters)}{rest})"
        patterns.append(re.escape(first) + rest)
    # One branch for all literals: trying one branch for each first character would take most of the time.
    columns = zip(*(text[:MIN_LENGTH] for text in literals), strict=True)
    patterns.append("".join(map(_one_of, columns)))
    starts = {escape for value in values for escape in escapes(value[0])}
    for starter in STARTERS:
        rests = "|".join(sorted(re.escape(escape[1:]) for escape in starts if escape[0] == starter))
        patterns.append(f"{re.escape(starter)}(?:{rests})")
    return "|".join(patterns)


def _one_of(characters: Iterable[str]) -> str:
    return f"[{re.escape(''.join(sorted(set(characters))))}]"


class TextStream:
    """Redact a text that arrives in pieces.

    It holds back only what could be the beginning of a secret that continues in the next piece, at most the length of
    the longest form. The joined output equals ``Redactor.redact`` of the whole.
    """

    def __init__(self, matcher: _Matcher) -> None:
        """Begin with nothing held back; ``Redactor.text_stream`` makes one."""
        self._matcher = matcher
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is certain so far (possibly nothing)."""
        matcher = self._matcher
        if not matcher.longest:
            return piece
        data = self._held + piece
        out: list[str] = []
        position = 0
        hold = matcher.hold_from(data, 0)
        for start, end, label in matcher.find(data):
            # One that begins where a longer form could begin must wait.
            if start >= hold:
                break
            out += [data[position:start], label]
            position = end
            if position > hold:
                hold = matcher.hold_from(data, position)
        out.append(data[position:hold])
        self._held = data[hold:]
        return "".join(out)

    def finish(self) -> str:
        """Return the rest that was held back."""
        held, self._held = self._held, ""
        return self._matcher.replace(held)


def _parts(value: str) -> list[str]:
    """Return the value and, of a value of several lines (a private key), each line that is long enough."""
    value = value.strip()
    lines = [line.strip() for line in value.splitlines()]
    long_lines = [line for line in lines if len(line) >= 2 * MIN_LENGTH] if len(lines) > 1 else []
    return [part for part in (value, *long_lines) if len(part) >= MIN_LENGTH]


def fillers(text: str, start: int) -> Iterator[int]:
    """Yield each end of a filler at ``start``; spaces after the end of a line may also belong to the value."""
    if text[start : start + 1] in _BEFORE_FILLER and (filler := _FILLER.match(text, start)) is not None:
        yield filler.end()
        yield from range(start + len(filler[0].rstrip(" \t")), filler.end())


_BYTES: tuple[Callable[[int], str], ...] = (
    lambda byte: f"%{byte:02X}",
    lambda byte: f"%{byte:02x}",
    lambda byte: f"={byte:02X}",
    lambda byte: f"\\x{byte:02x}",
    lambda byte: f"\\{byte:03o}",
)


_UNITS: tuple[Callable[[int], str], ...] = (
    lambda unit: f"\\u{unit:04x}",
    lambda unit: f"\\u{unit:04X}",
    lambda unit: f"%u{unit:04X}",
)


_CHARACTERS: tuple[Callable[[int], str], ...] = (
    lambda code: f"&#{code};",
    lambda code: f"&#{code:07};",
    lambda code: f"&#x{code:x};",
    lambda code: f"&#X{code:04X};",
    lambda code: f"\\u{{{code:x}}}",
    lambda code: f"\\x{{{code:X}}}",
)


_AGAIN: tuple[Callable[[str], str], ...] = (
    lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
    lambda text: text.replace("&", "&amp;"),
    lambda text: quote(text, safe=""),
)
"""What is done to a text that is escaped already: it is quoted in JSON, in HTML, in a URL."""


@functools.lru_cache(4096)
def escapes(character: str) -> tuple[str, ...]:
    """Return the escape sequences that stand for a character, also for one in a text that was escaped twice."""
    data, wide, code = as_bytes(character), _utf16(character, "be"), ord(character)
    units = [int.from_bytes(wide[place : place + 2], "big") for place in range(0, len(wide), 2)]
    sequences = {json.dumps(character)[1:-1], html.escape(character), *_names().get(character, ())}
    for encoders, numbers in ((_BYTES, data), (_UNITS, units), (_CHARACTERS, [code])):
        sequences |= {"".join(map(encode, numbers)) for encode in encoders}
    if not character.isalnum():
        sequences.add(f"\\{character}")
    for _ in range(2):
        sequences |= {encode(text) for text in sequences for encode in _AGAIN}
    return tuple(text for text in sequences if text[0] in STARTERS)


@functools.lru_cache(1)
def _names() -> dict[str, list[str]]:
    """Return the names of characters in HTML."""
    names: dict[str, list[str]] = {}
    for name, text in html5.items():
        if name.endswith(";"):
            names.setdefault(text, []).append(f"&{name}")
    return names


def whole_encodings(value: str, shortest: int) -> set[str]:
    """Return the value in hex, as a list of bytes, and in base64 and base32.

    Of the last two, without what also encodes its neighbours. Also backwards, and a long one in other cases: a host
    name is lower case.
    """
    data = as_bytes(value)
    forms = {value[::-1]} | ({value.lower(), value.upper(), value.swapcase()} if len(value) >= _LONG else set())
    for separator in ("", " ", ":", "-", ",", ", ", ", 0x", ",0x", " 0x"):
        for digits in (data.hex(), data.hex().upper()):
            forms.add(separator.join(digits[place : place + 2] for place in range(0, len(digits), 2)))
    forms |= {separator.join(map(str, data)) for separator in (",", ", ", " ")}
    for form in (data, *(_utf16(value, order) for order in ("le", "be"))):
        forms |= _base64(form)
    for offset in range(5):
        encoded = base64.b32encode(b"\0" * offset + data).decode("ascii")
        first = -(-8 * offset // 5)
        core = encoded[first : 8 * (offset + len(data)) // 5]
        forms |= {core, core.lower()}
    return {form for form in forms if len(form) >= shortest} - {value}


def _base64(data: bytes) -> set[str]:
    """Return all forms of ``data`` in base64: at each offset, in both alphabets, and each line of a wrapped text."""
    forms = set()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode("ascii")
        first = (0, 2, 3)[offset]
        last = len(encoded.rstrip("=")) - (0 if (offset + len(data)) % 3 == 0 else 1)
        core = encoded[first:last]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    whole = base64.b64encode(data).decode("ascii").rstrip("=")
    for width in (64, 76):
        forms |= {whole[place : place + width] for place in range(0, len(whole) if len(whole) > width else 0, width)}
    return forms


def _utf16(value: str, order: str) -> bytes:
    return value.encode(f"utf-16-{order}", "surrogatepass")


def as_bytes(value: str) -> bytes:
    """Return the bytes of a value; one that the environment contained is not always UTF-8."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
