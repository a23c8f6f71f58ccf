"""Restore the parts of a file that decide a check: sections of configurations, and tests beside the code.

``pyproject.toml`` carries dependencies and a version beside the options of pytest; Rust files and docstrings carry
tests beside the code. What is returned is the result's file with the base's deciding parts.
"""

from __future__ import annotations

import ast
import configparser
import itertools
import json
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from understudy.judge.runs.runner_registry import RUNNERS
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of
from understudy.mutants.languages.rust import TEST_ATTRIBUTE
from understudy.mutants.python_declarations import python_syntax

if TYPE_CHECKING:
    from tree_sitter import Node

Keys = tuple[str, ...]

_KEPT = {name: kept for runner in RUNNERS for name, kept in runner.kept_sections.items()}
_DEPENDENCIES = {name: keys for runner in RUNNERS for name, keys in runner.dependencies.items()}
Scope = tuple[str, ...]
"""The names of the modules around an item, from the outermost."""
Span = tuple[int, int]
"""Where an item begins, with its attributes, and where it ends."""

_RUST, _PYTHON = ".rs", ".py"
EXAMPLE = b">>>"
"""Begins an example in a docstring or a text, which a check may run."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(rb"\w+")
_FIXTURES = frozenset(
    {
        *("cache", "capfd", "capfdbinary", "caplog", "capsys", "capsysbinary", "capteesys", "doctest_namespace"),
        *("monkeypatch", "pytestconfig", "record_property", "record_testsuite_property", "record_xml_attribute"),
        *("recwarn", "request", "subtests", "testdir", "pytester", "tmp_path", "tmp_path_factory", "tmpdir"),
        *("tmpdir_factory", "event_loop", "event_loop_policy", "anyio_backend", "mocker", "db", "client", "settings"),
        *("freezer", "benchmark", "app", "live_server", "rf", "admin_user", "loop", "aiohttp_client"),
    }
)
"""Fixtures of pytest and of common plugins, which one in the project would replace."""
_BESIDE = frozenset({"attribute_item", "line_comment", "block_comment"})
_MOST_BYTES = 4 * 1024 * 1024


def splits(path: str) -> bool:
    """Return whether this file is restored by section."""
    return PurePosixPath(path).name in _KEPT


def restored_sections(path: str, base: bytes, result: bytes) -> bytes:
    """Return ``result`` with the parts of ``base`` that decide a check; ``base`` if one of them cannot be parsed."""
    name = PurePosixPath(path).name
    rules = _KEPT[name]
    if base == result:
        return result
    try:
        if name.endswith(".toml"):
            return _toml(base, result, rules)
        if name.endswith(".json"):
            return _json(base, result, rules)
        if name.endswith(".mod"):
            return _go_mod(base, result, rules)
        return _ini(base, result, rules)
    except (ValueError, RecursionError, configparser.Error):
        return base


def dependencies_changed(path: str, base: bytes | None, result: bytes | None) -> bool:
    """Return whether a manifest declares other dependencies than before, so that its lock file has to change."""
    if base is None or result is None:
        return base != result
    keys = _DEPENDENCIES.get(PurePosixPath(path).name)
    if keys is None:
        return base != result
    read = json.loads if path.endswith(".json") else lambda data: tomllib.loads(data.decode())
    try:
        before, after = read(base), read(result)
    except (ValueError, RecursionError):
        return base != result
    return any(_at(before, key.split(".")) != _at(after, key.split(".")) for key in keys)


def merged_sums(base: bytes, result: bytes) -> bytes:
    """Return ``go.sum`` of the result, but the base's hash of every module version that the base knows."""
    base_lines = {tuple(line.split()[:2]): line for line in base.splitlines()}
    return b"".join(base_lines.get(tuple(line.split()[:2]), line) + b"\n" for line in result.splitlines())


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _kept(keys: Keys, rules: Iterable[str]) -> bool | None:
    """Return whether the value at ``keys`` stays as the result has it; None if only a part of it does."""
    best, kept, partly = -1, False, False
    for rule in rules:
        parts = tuple(rule.removeprefix("!").split("."))
        if keys[: len(parts)] == parts:
            if len(parts) > best:
                best, kept = len(parts), not rule.startswith("!")
        elif parts[: len(keys)] == keys:
            partly = True
    return None if partly else kept


def _merged(base: Mapping[str, Any], result: Mapping[str, Any], rules: Sequence[str], at: Keys = ()) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in [*result, *(key for key in base if key not in result)]:
        path = (*at, key)
        kept = _kept(path, rules)
        if kept is None:
            old, new = base.get(key), result.get(key)
            if isinstance(old if old is not None else {}, dict) and isinstance(new if new is not None else {}, dict):
                inner = _merged(old or {}, new or {}, rules, path)
                if inner or new == {}:
                    merged[key] = inner
                continue
            kept = True  # it has another type than the rules expect, such as an array of tables
        source = result if kept else base
        if key in source:
            merged[key] = source[key]
    return merged


# -- TOML --------------------------------------------------------------------------------------------------------


def _toml(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    new = tomllib.loads(result.decode())
    merged = _merged(tomllib.loads(base.decode()), new, rules)
    if merged == new:
        return result
    import tomli_w

    return tomli_w.dumps(merged).encode()


# -- INI ---------------------------------------------------------------------------------------------------------

_SECTION = re.compile(r"^\[([^\]\n]+)\]", re.MULTILINE)


_OPTION = re.compile(r"^([^\s#;=:\[][^=:\n]*?)[ \t]*[=:]", re.MULTILINE)


def _ini(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    old, new = base.decode(), result.decode()
    for text in (old, new):
        configparser.ConfigParser(interpolation=None, allow_no_value=True).read_string(text)
    before, after = dict(_split(old, _SECTION)), _split(new, _SECTION)
    texts = [before.get("", "")]
    for section, text in after:
        if section and (section in rules or section.partition(":")[0] in rules):
            texts.append(text)
        elif section:
            texts.append(_options(section, before.get(section, ""), text, rules))
    names = {section for section, _ in after}
    for section, text in before.items():
        if section not in names and section not in rules and section.partition(":")[0] not in rules:
            texts.append(text)
    return "".join(text if text.endswith("\n") or not text else text + "\n" for text in texts).encode()


def _options(section: str, base: str, result: str, rules: Sequence[str]) -> str:
    """Return the base's section with the options of the result that a rule ``section|option`` keeps."""
    shape = f"{section.partition(':')[0]}:*" if ":" in section else section
    kept = {rule.partition("|")[2] for rule in rules if rule.partition("|")[0] == shape}
    if not kept:
        return base
    before, after = _split(base, _OPTION), dict(_split(result, _OPTION))
    texts = [after.get("", "") if not base else before[0][1]]
    seen = set()
    for option, text in before[1:]:
        seen.add(option)
        texts.append(after.get(option, "") if option in kept else text)
    texts += [text for option, text in after.items() if option in kept and option not in seen]
    return "".join(texts)


def _split(text: str, head: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return (name, text) of each part that starts with ``head``; the first has no name."""
    heads = list(head.finditer(text))
    parts = [("", text[: heads[0].start() if heads else len(text)])]
    ends = [*(match.start() for match in heads[1:]), len(text)]
    parts += [(match.group(1).strip(), text[match.start() : end]) for match, end in zip(heads, ends, strict=False)]
    return parts


# -- JSON --------------------------------------------------------------------------------------------------------


def _json(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    old, new = json.loads(base), json.loads(result)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return base
    merged = _merged(old, new, rules)
    if list(merged.items()) == list(new.items()):
        return result
    indent = re.search(rb"\n([ \t]+)\"", result)
    width: Any = indent.group(1).decode() if indent else None
    return (json.dumps(merged, indent=width, ensure_ascii=False) + "\n").encode()


# -- go.mod ------------------------------------------------------------------------------------------------------

_DIRECTIVE = re.compile(r"^([a-z]+)\b[ \t]*(\([^)]*\)[^\n]*|[^\n]*)(?:\n|\Z)", re.MULTILINE)


def _go_mod(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    def directives(data: bytes, is_kept: Callable[[str], bool]) -> str:
        return "".join(
            match.group().rstrip("\n") + "\n" for match in _DIRECTIVE.finditer(data.decode()) if is_kept(match.group(1))
        )

    if directives(base, lambda name: name not in rules) == directives(result, lambda name: name not in rules):
        return result
    return (directives(result, rules.__contains__) + directives(base, lambda name: name not in rules)).encode()


def may_have_tests(path: str, base: bytes) -> bool:
    """Return whether a file of the base may have tests beside its code."""
    return path.endswith(_RUST) or (path.endswith(_PYTHON) and EXAMPLE in base)


def restored_tests(path: str, base: bytes, result: bytes) -> bytes:
    """Return ``result`` with the tests of ``base`` instead of its own; ``result`` itself if neither has any.

    Tests take the place of those of the same module, or are added at its end. Those of a module that the result no
    longer has are left out: they would not build. Docstrings with examples take the place of those of the same function
    or class.
    """
    if max(len(base), len(result)) > _MOST_BYTES:
        return result
    if path.endswith(_PYTHON):
        return _with_examples(path, base, result)
    old, new = _Tests(path, base), _Tests(path, result)
    edits: list[tuple[int, int, bytes]] = []
    for scope in old.spans.keys() | new.spans.keys():
        texts = [base[start:end] for start, end in old.spans.get(scope, [])]
        spans = new.spans.get(scope, [])
        if texts == [result[start:end] for start, end in spans]:
            continue
        if spans:
            edits += [
                (start, end, text or b"") for (start, end), text in itertools.zip_longest(spans, texts[: len(spans)])
            ]
            more, at = texts[len(spans) :], spans[-1][1]
        else:
            more, at = texts, new.ends.get(scope, -1)
        if more and at >= 0:
            edits.append((at, at, b"\n" + b"\n".join(more) + b"\n"))
    return _edited(result, edits)


def _edited(source: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _with_examples(path: str, base: bytes, result: bytes) -> bytes:
    language = language_of(path)
    assert language is not None  # noqa: S101 - it is Python
    now = dict(_bodies(language.parse(result)))
    edits = []
    for name, body in _bodies(language.parse(base)):
        before = _docstring(body)
        text = before.text or b"" if before is not None else b""
        if EXAMPLE not in text or name not in now:
            continue
        after = _docstring(now[name])
        first = next((child for child in now[name].named_children if child.type != "comment"), None)
        if after is not None:
            edits.append((after.start_byte, after.end_byte, text))
        elif first is not None:
            indent = result[result.rfind(b"\n", 0, first.start_byte) + 1 : first.start_byte]
            lead = b"; " if indent.strip() else b"\n" + indent
            edits.append((first.start_byte, first.start_byte, text + lead))
    return _edited(result, edits)


def _bodies(module: Node) -> Iterator[tuple[tuple[Scope, int], Node]]:
    """Yield a module and the bodies of its classes and functions, each with the names around it and its number.

    The number tells those of equal names, such as overloads, from the top.
    """
    bodies: list[tuple[Scope, Node]] = [((), module)]
    stack: list[tuple[Scope, Node]] = [((), module)]
    while stack:
        scope, node = stack.pop()
        for child in node.named_children:
            name, body = child.child_by_field_name("name"), child.child_by_field_name("body")
            inside = scope
            if child.type in {"class_definition", "function_definition"} and name is not None and body is not None:
                inside = (*scope, text_of(name))
                bodies.append((inside, body))
            stack.append((inside, child))
    numbers: Counter[Scope] = Counter()
    for scope, body in sorted(bodies, key=lambda scoped: scoped[1].start_byte):
        numbers[scope] += 1
        yield (scope, numbers[scope]), body


def _docstring(body: Node) -> Node | None:
    first = next((child for child in body.named_children if child.type != "comment"), None)
    strings = first.named_children if first is not None and first.type == "expression_statement" else []
    return strings[0] if [child.type for child in strings] == ["string"] else None


def only_adds_fixtures(base: bytes, result: bytes, others: Iterable[bytes]) -> bool:
    """Return whether a ``conftest.py`` only has more fixtures, for tests that name them, and what these need.

    ``others`` are the files that may use a name of it already, such as the base's tests: a fixture that one of them
    names would be another one now. A fixture that acts by itself, a hook, and what pytest reads from the module decide
    a check.
    """
    before, after = python_syntax(base), python_syntax(result)
    if before is None or after is None:
        return False
    left = [ast.dump(statement) for statement in before.body]
    added = []
    for statement in after.body:
        if left and ast.dump(statement) == left[0]:
            del left[0]
        else:
            added.append(statement)
    bound = [_only_bound(statement) for statement in added]
    names = set(itertools.chain(*filter(None, bound)))
    if left or None in bound or not names.isdisjoint({*map(os.fsdecode, _WORD.findall(base)), "pytest"}):
        return False
    fixtures = {item.name for item in added if isinstance(item, _FUNCTIONS) and item.decorator_list}
    used = set(itertools.chain(*map(_WORD.findall, others)))
    return not any(name.encode() in used or name in _FIXTURES for name in fixtures)


def _only_bound(statement: ast.stmt) -> list[str] | None:
    """Return the names that a statement of a ``conftest.py`` binds to what a test has to ask for; None if it does more.

    Leave out modules under their usual names. An import from the project could bring a fixture that acts by itself.
    """
    modules: list[str] = []
    match statement:
        case ast.Expr(value=ast.Constant()):
            names = []
        case ast.Import(names=aliases):
            modules, names = [alias.name for alias in aliases], [alias.asname for alias in aliases if alias.asname]
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            modules, names = [module], [alias.asname or alias.name for alias in aliases]
        case ast.Assign(targets=[ast.Name(id=name)]) if _is_literal(statement.value):
            names = [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
            if not all(map(_is_plain_fixture, statement.decorator_list)) or not all(map(_is_literal, defaults)):
                return None
            names = [name]
        case _:
            return None
    # pytest reads these: hooks, plugins, marks, and files to leave out.
    if any(name == "*" or name.startswith(("pytest_", "pytestmark", "collect_ignore", "__")) for name in names):
        return None
    usual = sys.stdlib_module_names | {"pytest"}
    return names if all(module.partition(".")[0] in usual for module in modules) else None


def _is_plain_fixture(decorator: ast.expr) -> bool:
    call = decorator if isinstance(decorator, ast.Call) else None
    if ast.unparse(call.func if call is not None else decorator) not in {"pytest.fixture", "fixture"}:
        return False
    options = call.keywords if call is not None else []
    allowed = {"scope", "params", "ids"}
    return not (call and call.args) and all(option.arg in allowed and _is_literal(option.value) for option in options)


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def is_line_of_test(path: str, source: bytes, line: int) -> bool:
    """Return whether a line of a file, from 1, belongs to a test."""
    return any(line in lines for lines in _lines_of_tests(path, source))


def has_only_tests(path: str, source: bytes, lines: Iterable[int]) -> bool:
    """Return whether each of some lines of a file, from 1, belongs to a test or is blank."""
    tests, text = _lines_of_tests(path, source), source.split(b"\n")
    return all(not text[line - 1].strip() or any(line in test for test in tests) for line in lines)


def _lines_of_tests(path: str, source: bytes) -> list[range]:
    spans = itertools.chain(*_Tests(path, source).spans.values())
    return [range(source.count(b"\n", 0, start) + 1, source.count(b"\n", 0, end) + 2) for start, end in spans]


class _Tests:
    """Where the tests of a file stand."""

    def __init__(self, path: str, source: bytes) -> None:
        self.spans: dict[Scope, list[Span]] = {}
        self.ends: dict[Scope, int] = {}
        """Where the contents of each module end."""
        language = language_of(path)
        if language is not None:
            self._look(language.parse(source), (), len(source))

    def _look(self, body: Node, scope: Scope, end: int) -> None:
        self.ends[scope] = end
        for start, is_test, item in _items(body):
            if is_test:
                self.spans.setdefault(scope, []).append((start, item.end_byte))
            elif item.type == "mod_item" and (inner := item.child_by_field_name("body")) is not None:
                name = item.child_by_field_name("name")
                self._look(inner, (*scope, text_of(name) if name is not None else ""), inner.end_byte - 1)


def _items(body: Node) -> Iterator[tuple[int, bool, Node]]:
    """Yield each item of a module: where it begins with its attributes, whether one makes it a test, and the item."""
    start: int | None = None
    is_test = False
    for node in body.named_children:
        if node.type in _BESIDE:
            if node.type == "attribute_item":
                start = node.start_byte if start is None else start
                is_test = is_test or TEST_ATTRIBUTE.match(text_of(node)) is not None
            continue
        yield node.start_byte if start is None else start, is_test, node
        start, is_test = None, False
