"""Break a Python file for mutation testing: ``python -I -S understudy_mutate.py FILE`` rewrites it in place.

At the start of every function body, after its docstring, it inserts a call that raises once it is armed. It inserts at
the position that ``ast`` reports, so the rest stays the same byte for byte: on the line of a simple statement, or on a
separate line before a compound one. It runs in the project's own interpreter, which knows the project's grammar.
``__del__`` is not changed: exceptions in it do not reach a caller.

Prints the number of broken functions. Exit code 3: the file cannot be broken (it does not parse, or its bytes cannot be
decoded and encoded without loss), and is unchanged.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from typing import Any, List, Tuple  # noqa: UP035 - Python 3.8

CALL = '__import__("understudy_armed").raise_if_armed()'
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")


class CannotBreakError(Exception):
    """The file cannot be rewritten; the message has the reason."""


def rewrite(source: bytes) -> Tuple[bytes, int]:  # noqa: UP006
    """Return the broken source and the number of broken functions."""
    try:
        tree = ast.parse(source)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotBreakError("it does not parse: {}".format(error)) from error  # noqa: EM103, UP032
    bom = _BOM if source.startswith(_BOM) else b""
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    body = source[len(bom) :]
    try:
        text = body.decode(encoding)
        if text.encode(encoding) != body:
            raise CannotBreakError("its bytes cannot be decoded without loss")
    except UnicodeError as error:
        raise CannotBreakError("it is not {}".format(encoding)) from error  # noqa: EM103, UP032
    lines = _Lines(text)
    insertions = [
        insertion
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name != "__del__"
        for insertion in [_insertion(node, lines)]
    ]
    pieces = []
    done = 0
    for position, piece in sorted(insertions):
        pieces += [text[done:position], piece]
        done = position
    pieces.append(text[done:])
    broken = bom + "".join(pieces).encode(encoding)
    try:
        compile(broken, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotBreakError("a statement cannot be broken: {}".format(error)) from error  # noqa: EM103, UP032
    return broken, len(insertions)


def _insertion(function: Any, lines: _Lines) -> Tuple[int, str]:  # noqa: UP006
    first = function.body[0]
    if _is_docstring(first):
        if len(function.body) == 1 or _is_compound(function.body[1]):
            # `; call` after the docstring is valid whatever follows.
            return lines.position(first.end_lineno, first.end_col_offset), "; " + CALL
        first = function.body[1]
    if not _is_compound(first):
        return lines.position(first.lineno, first.col_offset), CALL + "; "
    line = min([first.lineno] + [decorator.lineno for decorator in getattr(first, "decorator_list", [])])
    start = lines.start(line)
    indent = lines.text[start : lines.position(first.lineno, first.col_offset) - lines.start(first.lineno) + start]
    return start, indent + CALL + lines.ending


def _is_docstring(statement: Any) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_compound(statement: Any) -> bool:
    return hasattr(statement, "body") or hasattr(statement, "cases")


class _Lines:
    """Convert positions of ``ast`` (line from 1, column in UTF-8 bytes) to indexes into the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts: List[int] = [0]  # noqa: UP006
        self.ending = "\n"
        for number, match in enumerate(_LINE_END.finditer(text)):
            self._starts.append(match.end())
            if number == 0:
                self.ending = match.group()

    def start(self, line: int) -> int:
        return self._starts[line - 1]

    def position(self, line: int, column: int) -> int:
        start = self.start(line)
        # A character has at least one byte, so `column` characters contain `column` bytes.
        return start + len(self.text[start : start + column].encode("utf-8", "surrogatepass")[:column].decode("utf-8"))


def main(path: str) -> int:
    """Rewrite the file at ``path``."""
    with open(path, "rb") as stream:  # noqa: PTH123
        source = stream.read()
    try:
        broken, count = rewrite(source)
    except CannotBreakError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 3
    with open(path, "wb") as stream:  # noqa: PTH123
        stream.write(broken)
    print(count)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
