"""Recognise a text in every encoding that programs commonly print it in.

Three groups: encodings of single characters (percent, HTML, backslash, quoted-printable), which may be mixed because
each encoder escapes other characters; fillers between two characters, which belong to the layout (the end of a wrapped
line, a colour); and encodings of the whole value (hex, base64, base32, lists of bytes), which are literal strings once
the value is known.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

STARTERS = "%&\\="
"""The characters that begin an escape sequence."""
LONGEST_ESCAPE = 48
"""Characters of the longest escape sequence that ``escapes`` decodes (a long entity name, escaped twice)."""
OPEN_ESCAPE = re.compile(rf"[{re.escape(STARTERS)}][%&\\=#;{{}}0-9A-Za-z]{{0,{LONGEST_ESCAPE}}}\Z")
"""The rest of a text that more text could make an escape sequence; some other texts match, too."""
FILLER = r"(?:=?\r?\n[ \t]{0,16}|\x1b\[[0-9;]{0,16}[A-Za-z]|[\u00ad\u200b\u2060\ufeff])"
"""A pattern of what may be between two characters: the end of a wrapped line, a colour, an invisible character."""
OPEN_FILLER = re.compile(r"(?:=?\r?|=?\r?\n[ \t]{0,16}|\x1b(?:\[[0-9;]{0,16})?)\Z")
"""The rest of a text that more text could make, or make longer, a filler."""
LONGEST_FILLER = 20
_FILLER = re.compile(FILLER)
_LEVELS = 3
"""How often a value may be percent-encoded or HTML-escaped, once inside the other."""
_MOST_BACKSLASHES = 2**_LEVELS
_MOST_UTF8_BYTES = 4
_PERCENT = tuple(re.compile(f"%{'25' * level}([0-9A-Fa-f]{{2}})") for level in range(_LEVELS))
_BACKSLASH_X = re.compile(rf"\\{{1,{_MOST_BACKSLASHES}}}x([0-9A-Fa-f]{{2}})")
_PERCENT_U = re.compile("%u([0-9A-Fa-f]{4})")
_EQUALS = re.compile("=([0-9A-Fa-f]{2})")
_OCTAL = re.compile(rf"\\{{1,{_MOST_BACKSLASHES}}}([0-3][0-7]{{2}}|[0-7]{{1,2}})")
_ENTITY = re.compile(r"#0{0,6}([0-9]{1,7});?|#[xX]0{0,6}([0-9A-Fa-f]{1,6});?|([A-Za-z][A-Za-z0-9]{1,31};)")
_AFTER_BACKSLASHES = re.compile(
    r"u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8})|[ux]\{0{0,6}([0-9A-Fa-f]{1,6})\}|([bfnrt])|([\"'/`$])"
)
_LOW_SURROGATE = re.compile(r"\\{1,8}u([dD][c-fC-F][0-9A-Fa-f]{2})")
_HIGH_HALF = ("d8", "d9", "da", "db")
_LOW_HALF = ("dc", "dd", "de", "df")
_LONG = 16
"""Shorter values in other cases would match by chance."""
_QUOTED = "\"'/`$"
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def escapes(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield each character that an escape sequence at ``start`` may stand for, with the end of the sequence."""
    match text[start]:
        case "%":
            for byte in _PERCENT:
                yield from _escaped_bytes(text, start, byte)
            yield from _percent_units(text, start)
        case "=":
            yield from _escaped_bytes(text, start, _EQUALS)
        case "&":
            yield from _entity(text, start)
        case "\\":
            yield from _backslash(text, start)


def fillers(text: str, start: int) -> Iterator[int]:
    """Yield each end of a filler at ``start``; spaces after the end of a line may also belong to the value."""
    found = _FILLER.match(text, start)
    if found is not None:
        yield found.end()
        yield from range(start + len(found[0].rstrip(" \t")), found.end())


def beginnings(characters: Iterable[str]) -> str:
    """Return a pattern of where escape sequences for these characters may begin; it matches at others, too."""
    patterns = {"&[#A-Za-z]"}
    for character in characters:
        byte = f"(?i:{as_bytes(character)[0]:02x})"
        code = ord(character)
        patterns |= {f"%(?:25){{0,{_LEVELS - 1}}}{byte}", f"={byte}", f"%u(?i:{_first_unit(code):04x})"}
        names = [f"(?i:[ux]\\{{?0*{code:x})" if code <= 0xFFFF else "[uUx]", f"0?{as_bytes(character)[0]:o}"]
        names += [f"x{byte}", *(name for name, control in _CONTROLS.items() if control == character)]
        if character in _QUOTED:
            names.append(re.escape(character))
        patterns.add(f"\\\\(?:\\\\){{0,{_MOST_BACKSLASHES - 1}}}(?:{'|'.join(names)})")
    return "|".join(sorted(patterns))


def whole_encodings(value: str, shortest: int) -> set[str]:
    """Return the value in hex, as a list of bytes, and, without what also encodes its neighbours, in base64 and base32.

    Also backwards, and a long one in other cases: a host name is lower case.
    """
    data = as_bytes(value)
    found = {value[::-1]} | ({value.lower(), value.upper(), value.swapcase()} if len(value) >= _LONG else set())
    for separator in ("", " ", ":", "-", ",", ", ", ", 0x", ",0x", " 0x"):
        for digits in (data.hex(), data.hex().upper()):
            found.add(separator.join(digits[place : place + 2] for place in range(0, len(digits), 2)))
    found |= {separator.join(map(str, data)) for separator in (",", ", ", " ")}
    for form in (data, *(_utf16(value, order) for order in ("le", "be"))):
        found |= _base64(form)
    for offset in range(5):
        encoded = base64.b32encode(b"\0" * offset + data).decode("ascii")
        first = -(-8 * offset // 5)
        core = encoded[first : 8 * (offset + len(data)) // 5]
        found |= {core, core.lower()}
    return {form for form in found if len(form) >= shortest} - {value}


def _base64(data: bytes) -> set[str]:
    """Return all forms of ``data`` in base64: at each offset, in both alphabets, and each line of a wrapped text."""
    found = set()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode("ascii")
        first = (0, 2, 3)[offset]
        last = len(encoded.rstrip("=")) - (0 if (offset + len(data)) % 3 == 0 else 1)
        core = encoded[first:last]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    whole = base64.b64encode(data).decode("ascii").rstrip("=")
    for width in (64, 76):
        found |= {whole[place : place + width] for place in range(0, len(whole) if len(whole) > width else 0, width)}
    return found


def _utf16(value: str, order: str) -> bytes:
    return value.encode(f"utf-16-{order}", "surrogatepass")


def as_bytes(value: str) -> bytes:
    """Return the bytes of a value; one that the environment contained is not always UTF-8."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _first_unit(code: int) -> int:
    return code if code <= 0xFFFF else 0xD800 + ((code - 0x10000) >> 10)


def _percent_units(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield what JavaScript's old ``escape`` writes as ``%uXXXX``, twice for characters beyond 16 bits."""
    high = _PERCENT_U.match(text, start)
    if high is None:
        return
    yield chr(int(high[1], 16)), high.end()
    low = _PERCENT_U.match(text, high.end())
    if low is not None and high[1][:2].lower() in _HIGH_HALF and low[1][:2].lower() in _LOW_HALF:
        yield chr(0x10000 + ((int(high[1], 16) - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()


def _escaped_bytes(text: str, start: int, byte: re.Pattern[str], base: int = 16) -> Iterator[tuple[str, int]]:
    """Yield what one byte stands for, then what several bytes in UTF-8 do; ``byte`` matches one of them."""
    data = b""
    end = start
    while len(data) < _MOST_UTF8_BYTES and (found := byte.match(text, end)) is not None:
        data += bytes([int(found[1], base)])
        end = found.end()
        if len(data) == 1:
            yield data.decode("utf-8", "surrogateescape"), end
            if data[0] < 0x80:
                return
        else:
            with suppress(UnicodeDecodeError):
                yield data.decode("utf-8"), end


def _entity(text: str, start: int) -> Iterator[tuple[str, int]]:
    from html.entities import html5

    for level in range(_LEVELS):
        prefix = "&" + "amp;" * level
        if not text.startswith(prefix, start):
            return
        found = _ENTITY.match(text, start + len(prefix))
        if found is None:
            continue
        decimal, hexadecimal, name = found.groups()
        if name is not None:
            if name in html5:
                yield html5[name], found.end()
            continue
        code = int(decimal) if decimal is not None else int(hexadecimal, 16)
        if code <= 0x10FFFF:
            yield chr(code), found.end()


def _backslash(text: str, start: int) -> Iterator[tuple[str, int]]:
    end = start
    while end < len(text) and end - start < _MOST_BACKSLASHES and text[end] == "\\":
        end += 1
    yield from (("\\", start + 2**level) for level in range(1, _LEVELS + 1) if start + 2**level <= end)
    yield from _escaped_bytes(text, start, _BACKSLASH_X)
    yield from _escaped_bytes(text, start, _OCTAL, 8)
    found = _AFTER_BACKSLASHES.match(text, end)
    if found is None:
        return
    unit, byte, point, braced, control, plain = found.groups()
    if control is not None:
        yield _CONTROLS[control], found.end()
        return
    if plain is not None:
        yield plain, found.end()
        return
    code = int(unit or byte or point or braced, 16)
    if code > 0x10FFFF:
        return
    yield chr(code), found.end()
    low = _LOW_SURROGATE.match(text, found.end()) if 0xD800 <= code < 0xDC00 else None
    if low is not None:
        yield chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00), low.end()
