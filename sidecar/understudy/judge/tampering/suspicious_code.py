"""Name code that a result adds and that reaches into a test runner, its process, or the source of the code under test.

Nothing is executed: the syntax tree is read. Honest tests use some of these names, so this is information for a
reviewer and decides no verdict. Code that is not a test is searched only for the names of a runner's internals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from understudy.judge.deciding.deciding_files import is_test
from understudy.judge.runs.builtin_checks import python_patterns
from understudy.judge.runs.judged_tree import Change
from understudy.judge.tampering import suspicious_names as names
from understudy.model.evidence.checks import SuspiciousCode
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Read = Callable[[str], bytes | None]
Found = tuple[int, str]
"""A line from 1, and what it does."""

_MOST = 100
_MOST_BYTES = 2 * 1024 * 1024
_SUPPORT = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py", "setup.py", "noxfile.py"})
_INTERNALS = re.compile(r"internals|Understudy|plugin manager|variable of a test runner")
"""What is reported of code that is not a test, where other names are ordinary."""
_QUOTES = re.compile(r"""^[a-zA-Z]*(?:\"\"\"|'''|["'`])|(?:\"\"\"|'''|["'`])$""")


def find(changes: Sequence[Change], read_base: Read, read: Read, *, code: Collection[str] = ()) -> list[SuspiciousCode]:
    """Return the suspicious lines that the changed files add, at most 100.

    ``read_base`` and ``read`` return the content of a file before and after the change; ``code`` are the files under
    test, whose names a test has no reason to spell as paths.
    """
    patterns = python_patterns(read)
    found: list[SuspiciousCode] = []
    for letter, path in changes:
        # Reading a file starts git, so only files that can have findings are read.
        content = read(path) if letter[:1] != "D" and _is_known(path) else None
        if content is None or len(content) > _MOST_BYTES:
            continue
        test = path not in code and (is_test(path, patterns) or PurePosixPath(path).name in _SUPPORT)
        now = _in_file(path, content, code)
        if not test:
            now = [each for each in now if _INTERNALS.search(each[1])]
        before = read_base(path) if now else None
        old = (
            Counter(_keys(before, _in_file(path, before, code))) if before and len(before) <= _MOST_BYTES else Counter()
        )
        for each, key in zip(now, _keys(content, now), strict=True):
            if old[key] > 0:
                old[key] -= 1
            else:
                found.append(SuspiciousCode(path=_printable(path), line=each[0], what=each[1]))
    return found[:_MOST]


def _keys(content: bytes, found: Sequence[Found]) -> list[tuple[bytes, str]]:
    """Return for each finding the text of its line and what it does, which moving the line does not change."""
    lines = content.split(b"\n")
    return [(lines[line - 1].strip() if line <= len(lines) else b"", what) for line, what in found]


def _is_known(path: str) -> bool:
    return PurePosixPath(path).suffix in names.OTHER_LANGUAGES or language_of(path) is not None


def _in_file(path: str, content: bytes, code: Collection[str]) -> list[Found]:
    suffix = PurePosixPath(path).suffix
    sources = frozenset(PurePosixPath(file).name for file in code if file != path)
    if suffix in names.OTHER_LANGUAGES:
        return _lines(content, suffix)
    language = language_of(path)
    if language is None:
        return []
    root = language.parse(content)
    search = _python if language.name == "python" else _script
    return sorted(set(search(root, sources)))


def _lines(content: bytes, suffix: str) -> list[Found]:
    found = []
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), 1):
        patterns = [*names.OTHER_LANGUAGES[suffix], *names.TEXTS[:3]]
        found += [(number, what) for pattern, what in patterns if pattern.search(line)]
    return sorted(set(found))


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _line(node: Node) -> int:
    return node.start_point[0] + 1


def _text_found(node: Node, sources: Collection[str]) -> Iterator[Found]:
    text = _QUOTES.sub("", text_of(node))
    for pattern, what in names.TEXTS:
        if pattern.search(text):
            yield _line(node), what
    if PurePosixPath(text).name in sources and len(text) < 1000:
        yield _line(node), f"names the source file {PurePosixPath(text).name}"


# -- Python --------------------------------------------------------------------------------------------------------


def _python(root: Node, sources: Collection[str]) -> Iterator[Found]:
    nodes = list(_nodes(root))
    known = dict(alias for node in nodes for alias in _imports(node))
    for node in nodes:
        match node.type:
            case "import_statement" | "import_from_statement":
                for _, full in _imports(node):
                    yield from _module_found(node, full)
                    yield from _name_found(node, full)
                if text_of(node).rstrip().endswith("*"):
                    yield from _module_found(node, text_of(node).split()[1])
            case "attribute":
                yield from _attribute(node, known)
            case "identifier" if node.parent is not None and node.parent.type not in {
                "attribute", "dotted_name", "aliased_import", "keyword_argument",
            }:  # fmt: skip
                imported = known.get(text_of(node), "")
                if "." in imported:
                    yield from _name_found(node, imported)
            case "function_definition":
                name = node.child_by_field_name("name")
                if name is not None and names.PYTHON_FUNCTIONS.fullmatch(text_of(name)):
                    yield _line(node), names.PYTHON_FUNCTION % text_of(name)
            case "call":
                yield from _call(node, known)
            case "string":
                yield from _text_found(node, sources) if not _is_docstring(node) else ()
            case _:
                pass


def _imports(node: Node) -> Iterator[tuple[str, str]]:
    """Return local name → dotted name of an import."""
    if node.type not in {"import_statement", "import_from_statement"}:
        return
    module = node.child_by_field_name("module_name")
    prefix = f"{text_of(module)}." if module is not None else ""
    for child in node.children_by_field_name("name"):
        if child.type == "aliased_import":
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name is not None and alias is not None:
                yield text_of(alias), f"{prefix}{text_of(name)}"
        elif prefix:
            yield text_of(child), f"{prefix}{text_of(child)}"
        else:
            # `import a.b` binds `a`, but both are loaded.
            yield text_of(child).partition(".")[0], text_of(child).partition(".")[0]
            if "." in text_of(child):
                yield text_of(child), text_of(child)


def _module_found(node: Node, full: str) -> Iterator[Found]:
    if full.lower().startswith("understudy"):
        yield _line(node), "imports Understudy"
    for module, what in names.PYTHON_MODULES.items():
        if full == module or full.startswith(f"{module}."):
            yield _line(node), what


def _name_found(node: Node, full: str) -> Iterator[Found]:
    for name, what in names.PYTHON_NAMES.items():
        if full == name or full.startswith(f"{name}."):
            yield _line(node), f"{what} ({name})"


def _dotted(node: Node | None) -> str:
    """Return a chain of attributes as a dotted name; an empty text for other expressions."""
    parts: list[str] = []
    while node is not None and node.type == "attribute":
        name = node.child_by_field_name("attribute")
        parts.append(text_of(name) if name is not None else "")
        node = node.child_by_field_name("object")
    if node is None or node.type != "identifier":
        return ""
    return ".".join([text_of(node), *reversed(parts)])


def _resolved(dotted: str, known: dict[str, str]) -> str:
    first, dot, rest = dotted.partition(".")
    return f"{known.get(first, first)}{dot}{rest}"


def _attribute(node: Node, known: dict[str, str]) -> Iterator[Found]:
    name = node.child_by_field_name("attribute")
    last = text_of(name) if name is not None else ""
    if last in names.PYTHON_ATTRIBUTES:
        yield _line(node), f"{names.PYTHON_ATTRIBUTES[last]} (.{last})"
    dotted = _dotted(node)
    full = _resolved(dotted, known)
    if dotted.partition(".")[0] in known:
        yield from _module_found(node, full) if full in names.PYTHON_MODULES else ()
        yield from _name_found(node, full)
    if last == "items" and dotted.endswith("session.items"):
        yield _line(node), "changes which tests run (session.items)"


def _call(node: Node, known: dict[str, str]) -> Iterator[Found]:
    function = node.child_by_field_name("function")
    if function is None:
        return
    dotted = text_of(function) if function.type == "identifier" else _dotted(function)
    what = names.PYTHON_DYNAMIC.get(_resolved(dotted, known))
    if what is None:
        return
    arguments = node.child_by_field_name("arguments")
    first = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    literal = (
        first is not None
        and first.type == "string"
        and not any(each.type == "interpolation" for each in first.children)
    )
    if literal and first is not None and what.startswith("imports"):
        module = _QUOTES.sub("", text_of(first))
        yield from _module_found(node, module)
        parent = node.parent
        if parent is not None and parent.type == "attribute":
            name = parent.child_by_field_name("attribute")
            yield from _name_found(node, f"{module}.{text_of(name) if name is not None else ''}")
    else:
        yield _line(node), what


def _is_docstring(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "expression_statement"


# -- JavaScript and TypeScript -------------------------------------------------------------------------------------


def _script(root: Node, sources: Collection[str]) -> Iterator[Found]:
    for node in _nodes(root):
        if node.type in {"member_expression", "subscript_expression"}:
            whole = _member(node)
            above = node.parent is not None and node.parent.type in {"member_expression", "subscript_expression"}
            if above and whole == "process.env":
                continue  # the longer expression says which variable
            for pattern, what in names.SCRIPT_NAMES:
                if pattern.match(whole):
                    yield _line(node), what
        elif node.type == "variable_declarator":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None and name.type == "object_pattern" and value is not None and text_of(value) == "process":
                yield _line(node), "reaches into the test process"
        elif node.type in {"call_expression", "new_expression"}:
            function = node.child_by_field_name("function") or node.child_by_field_name("constructor")
            if function is not None and function.type == "identifier" and text_of(function) in {"eval", "Function"}:
                yield _line(node), "runs code from a text"
        elif node.type in {"string", "template_string"}:
            # Every test names the code under test in its imports.
            yield from _text_found(node, () if _is_imported(node) else sources)
            for pattern, what in names.SCRIPT_MODULES:
                if _is_imported(node) and pattern.search(_QUOTES.sub("", text_of(node))):
                    yield _line(node), what


def _member(node: Node) -> str:
    """Return ``a.b`` and ``a["b"]`` as ``a.b``."""
    text = re.sub(r"""\??\.?\[\s*["'`]([\w$]+)["'`]\s*\]""", r".\1", text_of(node)[:500])
    text = re.sub(r"\s+|\?(?=\.)", "", text)
    return re.sub(r"^(?:globalThis|global|window)\.", "", text)


def _is_imported(node: Node) -> bool:
    parent = node.parent
    if parent is None:
        return False
    if parent.type in {"import_statement", "export_statement"}:
        return True
    call = parent.parent
    if parent.type != "arguments" or call is None:
        return False
    function = call.child_by_field_name("function")
    return (
        function is not None
        and re.fullmatch(r"require(?:\.resolve)?|import|(?:vi|jest)\.\w+", text_of(function)) is not None
    )


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
