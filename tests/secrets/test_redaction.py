"""A known value never leaves, in whatever spelling and however it is cut into pieces."""

from __future__ import annotations

import base64
import html
import itertools
import json
import quopri
import random
import re
import time
from collections.abc import Callable
from html.entities import html5
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.secrets import Redactor

KEY = "sk-live/ab+c\"d'e é~%20" + "Zz9" * 7
ALPHABET = 'abAB01+/="\\é% -_:<>&;#x'
values = st.text(ALPHABET, min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8)


def spellings(value: str) -> dict[str, str]:
    data = value.encode()
    return {
        "plain": value,
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "json": json.dumps(value)[1:-1],
        "json utf-8": json.dumps(value, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(value)[1:-1])[1:-1],
        "url": quote(value, safe=""),
        "url form": quote_plus(value),
        "url path": quote(value),
        "url lower case": re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
        "url twice": quote(quote(value, safe=""), safe=""),
        "html": html.escape(value),
        "html twice": html.escape(html.escape(value)),
        "html in json": json.dumps(html.escape(value))[1:-1],
        "javascript in html": json.dumps(value).replace("&", "\\u0026").replace("<", "\\u003c")[1:-1],
        "python bytes": str(data)[2:-1],
        "hex with spaces": data.hex(" "),
        "hex with colons": data.hex(":").upper(),
        "C array": ", ".join(f"0x{byte:02x}" for byte in data)[2:],
        "JSON of a Node buffer": json.dumps(list(data), separators=(",", ":"))[1:-1],
        "Python list of bytes": str(list(data))[1:-1],
        "backwards": value[::-1],
        "upper case": value.upper(),
        "lower case": value.lower(),
        "base64 of UTF-16": base64.b64encode(value.encode("utf-16-le")).decode()[: len(value) * 16 // 6],
        "base32": base64.b32encode(data).decode()[: len(data) * 8 // 5],
        "quoted-printable": quopri.encodestring(data).decode(),
        "folded": "\n".join(value[place : place + 5] for place in range(0, len(value), 5)),
        "coloured": value[:9] + "\x1b[1;31m" + value[9:],
        "with a soft hyphen": value[:6] + "\u00ad" + value[6:],
    }


def names(character: str) -> list[str]:
    return [f"&{name}" for name, text in html5.items() if text == character and name.endswith(";")]


def units(character: str) -> list[int]:
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2]) for place in range(0, len(data), 2)]


ENCODERS: dict[str, Callable[[str], str]] = {
    "plain": lambda character: character,
    "percent": lambda character: "".join(f"%{byte:02X}" for byte in character.encode()),
    "percent, lower case": lambda character: "".join(f"%{byte:02x}" for byte in character.encode()),
    "percent, twice": lambda character: "".join(f"%25{byte:02x}" for byte in character.encode()),
    "html, named": lambda character: (names(character) or [character])[0],
    "html, named last": lambda character: (names(character) or [character])[-1],
    "html, decimal": lambda character: f"&#{ord(character)};",
    "html, padded": lambda character: f"&#{ord(character):07};",
    "html, hex": lambda character: f"&#x{ord(character):x};",
    "html, upper hex": lambda character: f"&#X{ord(character):04X};",
    "html, twice": lambda character: f"&amp;#{ord(character)};",
    "json": lambda character: json.dumps(character)[1:-1],
    "json utf-8": lambda character: json.dumps(character, ensure_ascii=False)[1:-1],
    "\\u, lower case": lambda character: "".join(f"\\u{unit:04x}" for unit in units(character)),
    "\\u, upper case": lambda character: "".join(f"\\u{unit:04X}" for unit in units(character)),
    "\\u{}": lambda character: f"\\u{{{ord(character):x}}}",
    "\\x{}": lambda character: f"\\x{{{ord(character):X}}}",
    "octal": lambda character: "".join(f"\\{byte:03o}" for byte in character.encode()),
    "%u": lambda character: "".join(f"%u{unit:04X}" for unit in units(character)),
    "quoted-printable": lambda character: "".join(f"={byte:02X}" for byte in character.encode()),
    "\\u, twice": lambda character: "".join(f"\\\\u{unit:04x}" for unit in units(character)),
}
"""Ways to write one character; real encoders mix them, because each of them escapes other characters."""

FILLERS = ("", "", "\n", "\r\n  ", "=\n", "\x1b[0;1m", "\x1b[K", "\u200b")
"""What a layout puts between two characters."""


@pytest.mark.parametrize("form", spellings(KEY))
def test_each_spelling_is_replaced_in_text_and_in_bytes(form):
    redactor = Redactor({"OPENAI_API_KEY": KEY})
    text = f"before {spellings(KEY)[form]} after"
    assert redactor.redact(text) == "before <secret:OPENAI_API_KEY> after"
    assert redactor.redact(text.encode()) == b"before <secret:OPENAI_API_KEY> after"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "a longer piece of text"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_found_at_each_offset(before, after, alphabet):
    key = "sk-" + "k?9~" * 6
    encoded = alphabet((before + key + after).encode()).decode()
    redacted = Redactor({"K": key}).redact(f"Authorization: Basic {encoded}")
    assert "<secret:K>" in redacted
    # Of the value's own characters at most two at each edge are left.
    assert len(redacted) - len("Authorization: Basic <secret:K>") <= len(before) * 4 / 3 + len(after) * 4 / 3 + 6


@given(values, st.text(ALPHABET, max_size=20), st.text(ALPHABET, max_size=20))
def test_whatever_surrounds_it_the_value_is_gone(value, before, after):
    redactor = Redactor({"K": value})
    out = redactor.redact(before + value + after)
    assert value.strip() not in out.replace("<secret:K>", "\x00")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=24).filter(
        lambda text: len(text.strip()) >= 8
    ),
    st.one_of(st.sampled_from([[name] for name in ENCODERS]), st.lists(st.sampled_from([*ENCODERS]), min_size=1)),
    st.lists(st.integers(0, 10**6), max_size=12),
    st.lists(st.sampled_from([*FILLERS]), min_size=1, max_size=4),
)
def test_any_value_is_found_in_any_mix_of_encodings_however_it_is_cut_and_wrapped(value, encoders, cuts, fillers):
    value = value.strip()
    encoded = [ENCODERS[name](one) for name, one in zip(itertools.cycle(encoders), value, strict=False)]
    written = encoded[0] + "".join(itertools.chain(*zip(itertools.cycle(fillers), encoded[1:], strict=False)))
    whole = f"\n{written}\n"
    redactor = Redactor({"K": value})
    assert redactor.redact(whole) == "\n<secret:K>\n"
    assert redactor.redact(whole.encode()) == b"\n<secret:K>\n"
    stream = redactor.text_stream()
    ends = [0, *sorted(cut % len(whole) for cut in cuts), len(whole)]
    assert "".join(stream.feed(whole[a:b]) for a, b in pairwise(ends)) + stream.finish() == "\n<secret:K>\n"


@given(st.dictionaries(st.sampled_from("ABC"), values, max_size=3), st.data())
def test_a_stream_says_the_same_as_the_whole_however_it_is_cut(secrets, data):
    redactor = Redactor(secrets)
    pool = [form for value in secrets.values() for form in spellings(value.strip()).values()]
    fragments = st.sampled_from(pool).flatmap(
        lambda form: st.tuples(st.integers(0, len(form)), st.integers(0, len(form))).map(
            lambda ends: form[min(ends) : max(ends)]
        ),
    )
    piece = st.one_of(st.text(ALPHABET, max_size=6), *([st.sampled_from(pool), fragments] if pool else []))
    whole = "".join(data.draw(st.lists(piece, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    stream = redactor.text_stream()
    ends = [0, *cuts, len(whole)]
    out = "".join(stream.feed(whole[start:end]) for start, end in pairwise(ends)) + stream.finish()
    assert out == redactor.redact(whole)
    raw = whole.encode()
    assert out.encode() == redactor.redact(raw)


def test_a_stream_holds_nothing_back_that_cannot_be_a_secret():
    stream = Redactor({"K": "sk-0123456789"}).text_stream()
    assert stream.feed("hello world") == "hello world"
    assert stream.feed("see sk-01") == "see "
    assert stream.feed("23456789!") == "<secret:K>!"
    assert stream.feed("sk-0") == ""
    assert stream.feed("x") == "sk-0x"
    assert stream.finish() == ""


def test_the_longer_of_two_secrets_wins_also_in_a_stream():
    redactor = Redactor({"SHORT": "abcdefgh", "LONG": "abcdefghijkl"})
    assert redactor.redact("abcdefghijkl abcdefgh") == "<secret:LONG> <secret:SHORT>"
    stream = redactor.text_stream()
    assert stream.feed("abcdefgh") + stream.feed("ijkl") + stream.finish() == "<secret:LONG>"


def test_short_and_empty_values_are_not_looked_for():
    redactor = Redactor({"A": "", "B": "1234567", "C": "   \n "})
    assert not redactor
    assert redactor.redact("1234567 stays") == "1234567 stays"
    assert redactor.text_stream().feed("1234567") == "1234567"


def test_each_line_of_a_private_key_is_a_secret():
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "qPzX0m2s8d7f6g5h4j3k2l1q0w9e8r7t",
        "-----END PRIVATE KEY-----",
    ]
    redacted = Redactor({"PEM": "\n".join(lines)}).redact(f"log: {lines[2]}")
    assert redacted == "log: <secret:PEM>"


def test_json_values_are_redacted_deeply_keys_included():
    redactor = Redactor({"K": "sk-0123456789"})
    assert redactor.redact_json({"sk-0123456789": ["x sk-0123456789", 1, None, {"a": "sk-0123456789"}]}) == {
        "<secret:K>": ["x <secret:K>", 1, None, {"a": "<secret:K>"}],
    }


def test_a_name_cannot_break_out_of_the_placeholder():
    assert Redactor({"a>b\n": "0123456789"}).redact("0123456789") == "<secret:a_b_>"


def test_it_is_fast_enough_to_stand_in_every_stream():
    rng = random.Random(1)
    secrets = {f"K{n}": "sk-" + "".join(rng.choices("abcdefXYZ0123456789", k=48)) for n in range(10)}
    text = "def function(argument):\n    return argument + 1  # sk-not\n" * 20_000
    redactor = Redactor(secrets)
    started = time.thread_time()
    redactor.redact(text)
    # Measured 90 MB/s; a tenth of that would still be faster than any model writes.
    assert len(text) / (time.thread_time() - started) > 4e6
