"""Find what a reader of a change cannot see: invisible characters, letters that look like others, very long lines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MOST_CHARACTERS = 2000
"""A longer line does not fit on a screen, and is not read to its end."""
_LEAST_ENCODED = 160
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{300,}={0,2}|(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[0-7]{3}){40,}")
_FILLERS = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are letters, marks or signs by their category, and that fonts show as nothing or a space."""
_ALLOWED_CONTROLS = frozenset("\t\f\r\n")
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""They shape letters of some scripts and emoji; beside anything else they are invisible."""
_MARK_AT_START = "\ufeff"
_OTHER_FORMS = ("<wide>", "<font>", "<compat>")
"""Letters that Python takes for the plain ones in a name."""
_WORD = re.compile(r"[^\W\d_]+(?:\w*[^\W\d_])?")
_LOOKALIKES = str.maketrans(
    # Cyrillic, then Greek and Armenian.
    "АВЕЅІЈКМНОРСТХУасеіјорхуѕһԁԛԝьΑΒΕΖΗΙΚΜΝΟΡΤΥΧοναρօսհո",
    "ABESIJKMHOPCTXYaceijopxyshdqwbABEZHIKMNOPTYXovapouhn",
)


def hidden_in(line: str) -> str | None:
    """Return what a reader cannot see in a line, as the object of "has"; None if there is nothing."""
    if not (line.isascii() and line.isprintable()):
        unseen = next((line[position] for position in range(len(line)) if _is_unseen(line, position)), None)
        if unseen is not None:
            return f"the invisible character U+{ord(unseen):04X}"
        for word in _WORD.findall(line):
            if not word.isascii() and (name := _confusable(word)) is not None:
                return name
    if len(line) > MOST_CHARACTERS:
        return f"{len(line):,} characters"
    encoded = _ENCODED.search(line) if len(line) >= _LEAST_ENCODED else None
    return f"{len(encoded[0]):,} characters of encoded text" if encoded is not None else None


def why_hidden(lines: Iterable[str]) -> str | None:
    """Return what is hidden in lines of a file, as a clause about the file; None if nothing is hidden."""
    for line in lines:
        hidden = hidden_in(line.rstrip("\r\n"))
        if hidden is not None:
            return f"has a line with {hidden}"
    return None


def _is_unseen(line: str, position: int) -> bool:
    character = line[position]
    if character in _ALLOWED_CONTROLS:
        # A carriage return within a line moves back to its start.
        return character == "\r" and bool(line[position:].strip("\r\n"))
    if character in _FILLERS:
        return True
    if character in _JOINERS:
        before = line[position - 1] if position else " "
        return before.isascii() and not before.isdigit() and before not in "#*"
    if character == _MARK_AT_START and not position:
        return False
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def _confusable(word: str) -> str | None:
    """Return what hides in a word: letters of several alphabets that look alike, or letters in another form."""
    plain = unicodedata.normalize("NFKC", word)
    if plain.isascii() and any(unicodedata.decomposition(letter).startswith(_OTHER_FORMS) for letter in word):
        return f"the name {word!r}, which is {plain!r} in other letters"
    translated = word.translate(_LOOKALIKES)
    latin = any("LATIN" in unicodedata.name(character, "") for character in word)
    if latin and translated != word and translated.isascii():
        return f"the name {word!r}, in which letters of another alphabet look like {translated!r}"
    return None
