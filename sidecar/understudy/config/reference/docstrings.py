"""Read the docstrings of structures and the strings that follow their fields."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import typing

import msgspec


def doc_of(python: type) -> str:
    """Return the class's own docstring as one line of Markdown (reStructuredText's double ticks become single)."""
    own = python.__dict__.get("__doc__")
    return _prose(own) if isinstance(own, str) else ""


def field_docs(python: type) -> dict[str, str]:
    """Return the documentation of the fields of a structure and its bases, by name, as far as there is any."""
    found: dict[str, str] = {}
    for base in reversed(python.__mro__):
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            found |= docs_below(base)
    return found


@functools.cache
def docs_below(python: type) -> dict[str, str]:
    """Return the string that follows each assignment of a class body, by the name assigned."""
    (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(python))).body
    found: dict[str, str] = {}
    name: str | None = None
    for statement in typing.cast("ast.ClassDef", declaration).body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=assigned)) | ast.Assign(targets=[ast.Name(id=assigned)]):
                name = assigned
            case ast.Expr(value=ast.Constant(value=str(text))) if name is not None:
                found[name] = _prose(text)
                name = None
            case _:
                name = None
    return found


def _prose(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split()).replace("``", "`")
