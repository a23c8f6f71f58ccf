"""Divide the difference of a result into places, and write files in which some of them are undone.

A place is a hunk of the review, or the part of it that belongs to one function: a new file is one hunk, and what shows
one of its functions says nothing about another.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, zip_longest

from understudy.git.merge.line_edits import split_lines
from understudy.model.hunks import FileDiff, Hunk
from understudy.model.text.path_quoting import unquote
from understudy.mutants.generate import emptied, functions_of
from understudy.mutants.python_declarations import python_syntax

_DEFINITION = re.compile(
    rb"\b(func|function|fn|def|class|struct|enum|trait|interface|type)\s+(?:\([^()]*\)\s*)?([^\W\d]\w*)"
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MODULE = re.compile(r"(?:/__init__)?\.py$")
_DEPENDS_ON_PLACE = re.compile(rb"__(?:file|path|package|spec)__|^\s*from\s+\.", re.MULTILINE)
_WORD = re.compile(rb"\w+")
Read = Callable[[str], bytes | None]
"""Path → content of a file in one commit; None if it does not exist, or is too large."""


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of one hunk that belong to one function, or to none. Lines count from 0, and their ends are exclusive."""

    hunk: str
    path: str
    source: str | None
    """The path in the base of a file that was renamed."""
    whole: bool
    """It is undone as a whole file: it has no lines, or they were renamed, removed or replaced together."""
    old: tuple[int, int]
    """The lines in the base."""
    new: tuple[int, int]
    """The lines in the result; empty, at their position, for lines that were removed."""
    function: str = ""

    @property
    def lines(self) -> frozenset[int]:
        """Return its lines in the result, from 1."""
        return frozenset(range(self.new[0] + 1, self.new[1] + 1))

    @property
    def removed(self) -> frozenset[int]:
        """Return its lines in the base, from 1."""
        return frozenset(range(self.old[0] + 1, self.old[1] + 1))


def places_of(files: Iterable[FileDiff], read_base: Read, read_result: Read) -> list[Place]:
    """Return the places of all changed files, in the order of the diff."""
    places = []
    for file in files:
        path = os.fsdecode(unquote(file.path))
        source = os.fsdecode(unquote(file.from_)) if file.from_ is not None else None
        before, after = read_base(source or path), read_result(path)
        # A file of the base that is too large to read cannot be put together from lines.
        readable = before is not None or file.status == "added"
        by_line = not file.binary and file.status in {"modified", "added"} and readable
        for hunk in file.hunks:
            has_lines = bool(hunk.old_lines or hunk.new_lines)
            place = Place(hunk.id, path, source, not (by_line and has_lines), _range(hunk, "old"), _range(hunk, "new"))
            if by_line and has_lines and after is not None:
                places += _by_function(place, before, after)
            else:
                places.append(place)
    return places


def _range(hunk: Hunk, side: str) -> tuple[int, int]:
    """Return the lines of one side; an empty side starts after the line that git names."""
    start, count = (hunk.old_start, hunk.old_lines) if side == "old" else (hunk.new_start, hunk.new_lines)
    first = start - 1 if count else start
    return max(0, first), max(0, first) + count


def _by_function(whole: Place, before: bytes | None, after: bytes) -> list[Place]:
    """Return the parts of a hunk, one for each function of either side that has lines in it."""
    olds = _parts(whole.source or whole.path, before or b"", whole.old)
    news = _parts(whole.path, after, whole.new)
    if len(olds) <= 1 and len(news) <= 1:
        name = (news or olds or [("", 0, 0)])[0][0]
        return [_part(whole, whole.old, whole.new, name)]
    places = []
    names = ([name for name, _, _ in olds], [name for name, _, _ in news])
    for kind, first_old, last_old, first_new, last_new in difflib.SequenceMatcher(
        None, *names, autojunk=False
    ).get_opcodes():
        old_at = olds[first_old][1] if first_old < len(olds) else whole.old[1]
        new_at = news[first_new][1] if first_new < len(news) else whole.new[1]
        # A function that takes the place of another one is the same one under a new name.
        if kind == "equal" or last_old - first_old == last_new - first_new:
            for old, new in zip(olds[first_old:last_old], news[first_new:last_new], strict=True):
                places.append(_part(whole, old[1:], new[1:], new[0]))
            continue
        for name, start, end in olds[first_old:last_old]:
            places.append(_part(whole, (start, end), (new_at, new_at), name))
        for name, start, end in news[first_new:last_new]:
            old_end = olds[last_old - 1][2] if kind == "replace" else old_at
            places.append(_part(whole, (old_end, old_end), (start, end), name))
    return places


def _part(whole: Place, old: tuple[int, int], new: tuple[int, int], function: str) -> Place:
    return Place(whole.hunk, whole.path, whole.source, whole.whole, old, new, function)


def _parts(path: str, source: bytes, lines: tuple[int, int]) -> list[tuple[str, int, int]]:
    """Return the function, first and last line of each run of lines in one function; blank lines belong to the next."""
    if lines[0] == lines[1]:
        return []
    names = {number: name for name, first, last in functions_of(path, source) for number in range(first - 1, last)}
    text = split_lines(source)
    parts: list[tuple[str, int, int]] = []
    for name, group in groupby(range(*lines), key=lambda number: names.get(number, "")):
        numbers = list(group)
        parts.append((name, numbers[0], numbers[-1] + 1))
    joined: list[tuple[str, int, int]] = []
    for name, start, end in reversed(parts):
        blank = not any(line.strip() for line in text[start:end])
        if blank and joined:
            after, _, last = joined[-1]
            joined[-1] = (after, start, last)
        else:
            joined.append((name, start, end))
    return joined[::-1]


def undone(places: Iterable[Place], read_base: Read, read_result: Read) -> dict[str, bytes | None]:
    """Return path → content of the files in which these places are as in the base, for ``JudgedTree.compose``.

    None stands for the base's file, or for no file if the base has none.
    """
    files: dict[str, bytes | None] = {}
    for path, group in groupby(
        sorted(places, key=lambda place: (place.path, place.new, place.old)), key=lambda place: place.path
    ):
        listed = list(group)
        before, after = read_base(listed[0].source or path), read_result(path)
        if any(place.whole for place in listed) or after is None:
            files[path] = None
            files.update({place.source: None for place in listed if place.source is not None})
            continue
        files[path] = _without(listed, before, after)
    return files


def _without(places: Sequence[Place], before: bytes | None, after: bytes) -> bytes | None:
    old, new = split_lines(before or b""), split_lines(after)
    for place in reversed(places):
        new[place.new[0] : place.new[1]] = old[place.old[0] : place.old[1]]
    content = b"".join(new)
    return None if before is None and not content.strip() else content


def replaced_lines(place: Place, before: bytes | None, after: bytes) -> tuple[int, int, bytes]:
    """Return the first and last byte (exclusive) of the result that a place replaces, and what was there before."""
    old, new = split_lines(before or b""), split_lines(after)
    start, end = (sum(map(len, new[:line])) for line in place.new)
    return start, end, b"".join(old[place.old[0] : place.old[1]])


def tested_by(place: Place, after: bytes) -> tuple[int, int, str]:
    """Return the first and last line of the result, from 1, of which a test must run one to notice a place in Python.

    Also return the function that they are in; empty outside of functions, where the lines run when the file is loaded.
    """
    gone = place.new[0] == place.new[1]
    # Lines that were removed were between these two.
    first, last = (place.new[0], place.new[0] + 1) if gone else (place.new[0] + 1, place.new[1])
    whole = 1, after.count(b"\n") + 1, ""
    tree = python_syntax(after)
    if tree is None:
        return whole
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= last
        and first <= (node.end_lineno or node.lineno)
        and not (gone and node.name != place.function.rpartition(".")[2])
    ]
    if not around:
        return whole if gone else (first, last, "")
    outermost = min(around, key=lambda node: node.lineno)
    if gone or first < outermost.body[0].lineno:
        first, last = outermost.body[0].lineno, outermost.end_lineno or outermost.lineno
    return first, last, place.function or outermost.name


def by_line(places: Iterable[Place]) -> Mapping[str, Mapping[int, int]]:
    """Return path → line of the result, from 1 → the index of its place."""
    index: dict[str, dict[int, int]] = {}
    for number, place in enumerate(places):
        index.setdefault(place.path, {}).update(dict.fromkeys(place.lines, number))
    return index


def is_same_module(place: Place, before: bytes | None, after: bytes | None) -> bool:
    """Return whether a module only became the ``__init__.py`` of a package of its name, or the reverse.

    What it imports or reads relative to itself would be elsewhere.
    """
    if place.source is None or not place.path.endswith(".py"):
        return False
    same_name = _MODULE.sub("", place.source) == _MODULE.sub("", place.path)
    return same_name and before == after and after is not None and not _DEPENDS_ON_PLACE.search(after)


def only_named_again(place: Place, before: bytes, after: bytes) -> bool:
    """Return whether the lines of a place define the same things as before under other names, which are new."""
    old, new = split_lines(before)[slice(*place.old)], split_lines(after)[slice(*place.new)]
    names: list[tuple[bytes, bytes]] = []
    for line, line_now in zip_longest(old, new, fillvalue=b""):
        if line == line_now:
            continue
        definition, definition_now = _DEFINITION.search(line), _DEFINITION.search(line_now)
        if definition is None or definition_now is None:
            return False
        if line[: definition.start(2)] + line[definition.end(2) :] != (
            line_now[: definition_now.start(2)] + line_now[definition_now.end(2) :]
        ):
            return False
        names.append((definition[2], definition_now[2]))
    words, words_now = set(_WORD.findall(before)), set(_WORD.findall(after))
    return bool(names) and all(name not in words_now and name_now not in words for name, name_now in names)


NOTHING = b"None"
ANYTHING = b"__import__('unittest.mock').mock.MagicMock()"
"""An object that can be called, compared and read in any way: a test that only uses it does not fail."""


def hollow(place: Place, after: bytes) -> list[tuple[str, bytes]]:
    """Return what a place adds, each with the file in which it exists and does nothing.

    Without it, a test that only calls it fails, too. These are its functions; if it has none, the names that it binds.
    """
    if place.whole or place.removed:
        return []
    content = emptied(place.path, after, place.lines)
    if content is None:
        return unbound(place, after, ANYTHING)
    return [(place.function or "a function without a name", content)]


def unbound(place: Place, after: bytes, value: bytes = NOTHING) -> list[tuple[str, bytes]]:
    """Return each name that a place binds outside functions, with the file in which it is bound to ``value``.

    That of a class or function is bound after its end: its first line cannot be undone while the rest of it is there.

    Only in Python: without the place, a module that imports the name cannot be loaded, which shows nothing. Elsewhere,
    the use of a name that does not exist fails where it is used.
    """
    if not place.path.endswith(".py"):
        return []
    tree = python_syntax(after)
    if tree is None:
        return []
    # Python ends a line at a lone carriage return, too; git does not.
    lines = after.splitlines(keepends=True)
    in_git = list(accumulate((line.endswith(b"\n") for line in lines), initial=1))
    contents = []
    for statement in _outside_functions(tree):
        if in_git[statement.lineno - 1] not in place.lines or not (names := _bound_by(statement)):
            continue
        end = statement.end_lineno or statement.lineno
        if isinstance(statement, _FUNCTIONS) and place.lines.issuperset(in_git[statement.lineno - 1 : end]):
            continue  # it is emptied instead
        indent = lines[statement.lineno - 1][: statement.col_offset]
        # Another statement on the same line would be cut off.
        if indent.strip() or lines[end - 1][statement.end_col_offset or 0 :].partition(b"#")[0].strip():
            continue
        for name in names:
            inserted = indent + name.encode() + b" = " + value + b"\n"
            first = lines[end - 1] if lines[end - 1].endswith(b"\n") else lines[end - 1] + b"\n"
            contents.append((name, b"".join([*lines[: end - 1], first, inserted, *lines[end:]])))
    return contents


def _outside_functions(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _outside_functions(child)


def _bound_by(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(module=module, names=names) if module != "__future__":
            return [alias.asname or alias.name for alias in names if alias.name != "*"]
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            # Only `import *` reads this one.
            return [target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__"]
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            return [name]
        case _:
            return []
