"""A value in every encoding that programs commonly print it in.

Three groups: escape sequences of single characters, which may be mixed because each encoder escapes other characters;
fillers between two characters, which belong to the layout (the end of a wrapped line, a colour); and encodings of the
whole value (hex, base64, base32, lists of bytes), which are literal texts once the value is known.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import re
from collections.abc import Callable, Iterator
from html.entities import html5
from urllib.parse import quote

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
