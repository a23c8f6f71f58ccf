"""Mutants of modules whose functions a decorator compiles again, or which take too long to be loaded for each mutant."""

import functools
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from understudy.ghostwriter.inside import loading
from understudy.ghostwriter.inside.audit import Guard
from understudy.ghostwriter.inside.loading import Example, Source, detects, evaluate, record
from understudy.ghostwriter.inside.shapes import TEXT, shape_of_hint

CHECKED = '''"""A decorator that does what typeguard does: it compiles a function again from its file."""
import ast, inspect, types


def checked(function):
    tree = ast.parse(inspect.getsource(inspect.getmodule(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            node.decorator_list = []
            node.body.insert(0, ast.parse("assert CHECKS").body[0])
    code = compile(tree, function.__code__.co_filename, "exec")
    codes = [code]
    while codes:
        one = codes.pop()
        if one.co_name == function.__name__ and one.co_firstlineno >= function.__code__.co_firstlineno:
            return types.FunctionType(one, function.__globals__, function.__name__, function.__defaults__)
        codes += [inner for inner in one.co_consts if isinstance(inner, types.CodeType)]
'''
MODULE = """
import functools

CHECKS = True


@checked
def more(x):
    return x + 1


class Shelf:
    def __init__(self, books=3):
        self.books = books

    @checked
    def twice(self):
        return self.books * 2

    @property
    def half(self):
        return self.books // 2

    @half.setter
    def half(self, value):
        self.books = value * 2

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def sign(x):
        return -1 if x < 0 else 1

    @classmethod
    def full(cls):
        return cls(10).books
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module in a file, with its functions compiled again when it is loaded."""
    file = tmp_path / "shelves.py"
    file.write_text(CHECKED + MODULE)
    spec = importlib.util.spec_from_file_location("shelves", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shelves", module)
    spec.loader.exec_module(module)
    return Source(module, file.read_bytes(), Guard([str(tmp_path)]))


def noticed(source: Source, expression: str, old: str, new: str) -> bool | None:
    """Return whether a test of the expression notices a change; None if the change cannot be loaded."""
    example, scope = Example(expression), source.original()
    assert record(example, evaluate(example, scope, source.guard), scope, source.guard)
    start = source.source.index(old.encode(), len(CHECKED))
    mutated = source.mutated(start, start + len(old), new.encode())
    if mutated is None:
        return None
    found = detects(example, evaluate(example, mutated, source.guard), mutated)
    assert not detects(example, evaluate(example, scope, source.guard), scope), "the original is as before"
    return found


CHANGES = [
    ("more(4)", "x + 1", "x - 1"),
    ("Shelf().twice()", "self.books * 2", "self.books * 3"),
    ("Shelf(8).half", "self.books // 2", "self.books // 4"),
    ("Shelf.sign(-5)", "x < 0", "x > 0"),
    ("Shelf.full()", "cls(10)", "cls(11)"),
]


@pytest.mark.parametrize(("expression", "old", "new"), CHANGES)
def test_a_change_of_a_function_that_is_compiled_again_is_noticed(source, expression, old, new):
    source.prepare()
    assert noticed(source, expression, old, new) is True
    assert noticed(source, expression, old, f"({old})") is not True


def test_without_grafts_such_a_change_is_not_seen(source):
    assert noticed(source, *CHANGES[0]) is False, "why grafts are needed"


def test_what_no_graft_can_show_is_left_out(source):
    source.prepare()
    assert noticed(source, "Shelf().books", "books=3", "books=4") is None, "a default value is not in the code"
    assert noticed(source, "CHECKS", "CHECKS = True", "CHECKS = False") is None


def test_a_slow_module_is_not_loaded_for_each_change(monkeypatch):
    monkeypatch.setattr(loading, "SLOW_SECONDS", -1.0)
    code = "LIMIT = 3\ndef over(x):\n    def check():\n        return x > LIMIT\n    return check()\n"
    module = types.ModuleType("slow")
    module.__file__ = "slow.py"
    exec(compile(code, "slow.py", "exec"), vars(module))  # noqa: S102
    source = Source(module, code.encode(), Guard([]))
    source.prepare()
    loaded = []
    monkeypatch.setattr(loading.types, "ModuleType", lambda *names: loaded.append(names) or types.SimpleNamespace())
    example = Example("over(4)")
    assert record(example, evaluate(example, source.original(), source.guard), source.original(), source.guard)
    start = code.index("x >")
    scope = source.mutated(start, start + 3, b"x <")
    assert scope is not None
    assert detects(example, evaluate(example, scope, source.guard), scope)
    assert not loaded


def test_what_the_import_of_a_module_tries_is_not_held_against_its_functions(monkeypatch):
    module = types.ModuleType("listing")
    module.__file__ = "listing.py"
    source = Source(module, b"def more(x):\n    return x + 1\n", Guard([]))
    monkeypatch.setattr(source, "mutated", lambda *_: source.guard.events.add("os.listdir"))
    source.prepare()
    assert not source.guard.events


def test_hints_with_metadata_have_the_shape_of_their_type():
    import typing

    own: dict[str, list[str]] = {}
    assert shape_of_hint(typing.Annotated[str, "at least one character"], own) == TEXT
    assert shape_of_hint(typing.NewType("Word", str), own) == TEXT
    assert shape_of_hint(typing.Optional[typing.Annotated[str, 1]], own) == ("union", TEXT, ("none",))  # noqa: UP045


def test_a_function_that_wraps_itself_is_left_alone(source):
    def endless() -> None: ...

    endless.__wrapped__ = functools.partial(endless)
    endless.__wrapped__.__wrapped__ = endless  # type: ignore[attr-defined]
    vars(source.module)["more"] = endless
    source.prepare()
    assert noticed(source, *CHANGES[1]) is True
