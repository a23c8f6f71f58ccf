"""Sham mutants: changes that nothing a program does can show.

A test that fails on one of them reads the source, counts its runs, or fails at random, so its failures on real mutants
prove nothing. A test that compares files cannot tell them from real mutants.
"""

from __future__ import annotations

import random

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.mutant import Mutant

_WORDS = ("first", "last", "size", "total", "limit", "value", "index", "count", "offset", "state", "shape", "result")


def sham_mutants(path: str, source: bytes, seed: str) -> list[Mutant]:
    """Return the three sham mutants of a file: the same bytes, a comment, and a store that nothing reads.

    Where the language has no such store at the end of a file, the third is another comment. None for an unknown
    language. The names are chosen by ``seed``.
    """
    language = language_of(path)
    if language is None:
        return []
    generator = random.Random(f"{seed} {path}")  # noqa: S311 - reproducible by design

    def phrase(separator: str) -> str:
        return separator.join(generator.sample(_WORDS, 3))

    lead = "" if not source or source.endswith((b"\n", b"\r")) else "\n"
    store = (language.dead_store or language.comment) % phrase("_")
    texts = ["", f"{lead}{language.comment % phrase(' ')}\n", f"{lead}{store}\n"]
    line = source.count(b"\n") + 1
    return [
        Mutant(
            start=len(source),
            end=len(source),
            text=text.encode(),
            operator="sham",
            line=line,
            first_line=line,
            last_line=line,
            function="",
        )
        for text in texts
    ]
