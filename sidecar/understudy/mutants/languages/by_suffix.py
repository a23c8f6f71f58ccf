"""Which language a file is in."""

from __future__ import annotations

from pathlib import PurePosixPath

from understudy.mutants.languages import go, java, javascript, python, rust
from understudy.mutants.languages.language import Language

LANGUAGES = (
    python.PYTHON,
    javascript.JAVASCRIPT,
    javascript.TYPESCRIPT,
    javascript.TSX,
    go.GO,
    rust.RUST,
    java.JAVA,
)
_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_of(path: str) -> Language | None:
    """Return the language of a file by its suffix; None if its code cannot be mutated."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
