"""Load a module's mutants beside the original, and evaluate examples in either."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import time
import types
from collections import deque
from typing import Any

from .audit import Guard, Refused, TooSlow
from .exact import HELPERS, agrees, exact
from .grafting import GRAFT, Function, Graft, caches_of, functions_of

LONGEST_ITERATION = 50
SLOW_SECONDS = 0.05
"""From this time on, mutants of functions are not loaded with their module but grafted onto the loaded one."""
LATE_SECONDS = 0.2
"""From this time on, other mutants are not loaded at all: they would exceed the limit of an evaluation."""
DOCUMENTED, INVENTED = 0, 2
"""The origins of an example: 0 for the documentation, 1 for tests, 2 for invented, 3 for searched."""
WHOLE = "<module>"
"""The key of a scope under which the names are that examples of the documentation see; no name of a module."""
WRONG_CALLS = (TypeError, AttributeError, ValueError, NotImplementedError, AssertionError, ImportError, NameError)
"""Kinds that blame the arguments: with invented arguments they show nothing."""


class Outcome:
    """How an evaluation ended: ``kind`` is value, raises, hangs or unusable."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any = None) -> None:
        """Store the value, or the exception."""
        self.kind = kind
        self.value = value


class Source:
    """The source of the module under test, compiled statement by statement so that a mutant costs one statement."""

    def __init__(
        self, module: types.ModuleType, source: bytes, guard: Guard, provided: dict[str, Any] | None = None
    ) -> None:
        """Parse the module's source; raise ``SyntaxError`` as ``ast.parse`` does.

        ``provided`` are the names that the project adds to the namespace of its examples (``doctest_namespace``).
        """
        self.module = module
        self.provided = provided or {}
        self.source = source
        self.guard = guard
        self.tree = ast.parse(source)
        lines = source.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        self.pieces: list[tuple[int, int, int]] = []  # first line, first byte, end byte
        for node in self.tree.body:
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]])
            begin, end = starts[first - 1], starts[min(node.end_lineno or first, len(lines))]
            if self.pieces and begin < self.pieces[-1][2]:  # several statements on one line
                self.pieces[-1] = (self.pieces[-1][0], self.pieces[-1][1], max(end, self.pieces[-1][2]))
            else:
                self.pieces.append((first, begin, end))
        self.flags = 0
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                future = __import__("__future__")
                for alias in node.names:
                    self.flags |= getattr(future, alias.name).compiler_flag
        self.codes = [self._compile(first, source[begin:end]) for first, begin, end in self.pieces]
        self.own = frozenset(_defined(self.tree))
        self.seconds = 0.0
        """What it takes to load a mutant."""
        self.functions: list[Function] = []
        self.caches: list[Any] = []

    def prepare(self) -> None:
        """Find out how mutants are loaded; functions that a decorator compiled again get their own code back."""
        functions = list(functions_of(self.tree, self.module))
        started = time.process_time()
        rewritten = [function for function in functions if self._restore(function)]
        only_grafts = bool(rewritten)
        if not only_grafts and self.pieces:
            started = time.process_time()
            events = set(self.guard.events)
            # Some modules can be loaded only once, for example because they register their functions.
            only_grafts = self.mutated(self.pieces[0][1], self.pieces[0][1], b"") is None
            self.guard.events = events  # what its import tried does not count against its functions
        self.seconds = time.process_time() - started
        if only_grafts or self.seconds > SLOW_SECONDS:
            self.functions = functions
            self.caches = caches_of(self.module)
        if only_grafts:
            self.seconds = LATE_SECONDS

    def _restore(self, function: Function) -> bool:
        """Give a function the code that is in the file; return whether it had another one."""
        number = self._number_of(function)
        code = None if number is None else function.code_in(self.codes[number])
        if code is None or function.is_as_written(code):
            return False
        try:
            function.loaded.__code__ = code
        except ValueError:  # it has other free variables
            return False
        return True

    def _number_of(self, function: Function) -> int | None:
        """Return the number of the piece with a function."""
        starts = [first for first, _, _ in self.pieces if first <= function.first]
        return len(starts) - 1 if starts else None

    def _grafted(self, number: int, line: int, code: types.CodeType) -> dict[str, Any] | None:
        """Return the scope of the original with a graft; None if no function that is loaded changes."""
        for function in self.functions:
            if function.first <= line <= function.last and self._number_of(function) == number:
                grafted = function.code_in(code)
                if (
                    grafted is None
                    or grafted == function.loaded.__code__
                    or _free(grafted) != _free(function.loaded.__code__)
                ):
                    return None
                return {**self.original(), GRAFT: Graft(function.loaded, grafted, self.caches)}
        return None

    def _compile(self, first: int, text: bytes) -> types.CodeType:
        name = self.module.__file__ or "module"
        padded = b"# -*- coding: utf-8 -*-" + b"\n" * (first - 1) + text if first > 1 else text
        code: types.CodeType = compile(padded, name, "exec", self.flags, dont_inherit=True)
        return code

    def piece_of(self, start: int) -> ast.stmt | None:
        """Return the statement of the module that contains a byte."""
        for first, begin, end in self.pieces:
            if begin <= start < end:
                return next((node for node in self.tree.body if node.lineno >= first), None)
        return None

    def _bound(self, number: int) -> set[str]:
        """Return the names that a piece of the module assigns or imports."""
        first, _, _ = self.pieces[number]
        last = self.pieces[number + 1][0] if number + 1 < len(self.pieces) else float("inf")
        names = set()
        for node in self.tree.body:
            for item in ast.walk(node) if first <= node.lineno < last else ():
                if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                    names.add(item.id)
                elif isinstance(item, (ast.Import, ast.ImportFrom)):
                    names |= {alias.asname or alias.name.split(".")[0] for alias in item.names}
        return names

    def names(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the scope in which examples are evaluated: the module's own names, and helper modules.

        Examples of the documentation see the whole namespace of the module, as they do with ``doctest``.
        """
        module_names = {name: namespace[name] for name in self.own if name in namespace}
        return {**HELPERS, **module_names, WHOLE: {**HELPERS, **namespace, **self.provided}}

    def original(self) -> dict[str, Any]:
        """Return the scope of the module as it is."""
        return self.names(vars(self.module))

    def mutated(self, start: int, end: int, text: bytes) -> dict[str, Any] | None:
        """Return the scope of a mutant, or None when it cannot be imported."""
        codes = list(self.codes)
        for number, (first, begin, stop) in enumerate(self.pieces):
            if begin <= start and end <= stop:
                try:
                    codes[number] = self._compile(first, self.source[begin:start] + text + self.source[end:stop])
                except (SyntaxError, ValueError):
                    return None
                if self.functions:
                    grafted = self._grafted(number, self.source.count(b"\n", 0, start) + 1, codes[number])
                    if grafted is not None or self.seconds >= LATE_SECONDS:
                        return grafted
                break
        else:
            return None
        fresh = types.ModuleType(self.module.__name__, self.module.__doc__)
        namespace = vars(fresh)
        for name in ("__file__", "__package__", "__spec__", "__path__", "__builtins__"):
            if name in vars(self.module):
                namespace[name] = vars(self.module)[name]
        name = self.module.__name__
        sys.modules[name] = fresh  # dataclasses and the like look their module up
        self.guard.start()
        try:
            for number, code in enumerate(codes):
                try:
                    exec(code, namespace)  # noqa: S102 - the module under test
                except Refused:
                    if code is not self.codes[number]:
                        raise
                    # For example, a version from metadata: the original has the same.
                    bound = self._bound(number)
                    namespace.update({name: vars(self.module)[name] for name in bound if name in vars(self.module)})
        except (Exception, Refused, TooSlow, SystemExit):
            return None
        finally:
            self.guard.stop()
            sys.modules[name] = self.module
        return self.names(namespace)


def _free(code: types.CodeType) -> tuple[str, ...]:
    return code.co_freevars


def _defined(tree: ast.Module) -> list[str]:
    """Return the names that the module itself defines, not those that it imports."""
    names = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)]
        elif isinstance(node, ast.If) and any(getattr(item, "id", "") == "__name__" for item in ast.walk(node.test)):
            continue  # what runs only as a program
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            waiting += list(ast.iter_child_nodes(node))
    return [name for name in names if not (name.startswith("__") and name.endswith("__"))]


class Example:
    """Statements, and an expression whose outcome a test asserts."""

    __slots__ = ("code", "cost", "expected", "expected_code", "expression", "lines", "origin", "setup", "setup_code")

    def __init__(self, expression: str, setup: tuple[str, ...] = (), origin: int = 2, cost: int = 0) -> None:
        """Compile the texts; ``origin`` is 0 for the documentation, 1 for tests, 2 for invented, 3 for searched."""
        self.expression = expression
        self.setup = setup
        self.origin = origin
        self.cost = cost
        self.code = compile(expression, "<example>", "eval", dont_inherit=True)
        self.setup_code = compile("\n".join(setup), "<example>", "exec", dont_inherit=True) if setup else None
        self.expected: tuple[str, Any, str] | None = None
        self.expected_code: types.CodeType | None = None
        """How to make the expected value in another scope, when it needs names of the module."""
        self.lines: frozenset[int] | None = None

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """Identify the example."""
        return self.setup, self.expression


def run_imports(provided: list[str], examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Import what examples import before the guard, which refuses to read folders; return the names of ``provided``."""
    names: dict[str, Any] = {}
    for statement in provided:
        _run_import(statement, names)
    for example in examples:
        for statement in example["setup"]:
            if statement.startswith(("import ", "from ")):
                _run_import(statement, {})
    return {name: value for name, value in names.items() if name != "__builtins__"}


def _run_import(statement: str, names: dict[str, Any]) -> None:
    try:
        exec(statement, names)  # noqa: S102 - an import of the project
    except Exception:
        return  # the examples that need it fail, and say so


def seen_by(example: Example, scope: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the names in a scope that an example sees."""
    if example.origin == DOCUMENTED and WHOLE in scope:
        return dict(scope[WHOLE])
    names = dict(scope)
    names.pop(GRAFT, None)
    names.pop(WHOLE, None)
    return names


def evaluate(example: Example, scope: dict[str, Any], guard: Guard) -> Outcome:
    """Evaluate an example under the guard."""
    refused = guard.count
    graft: Graft | None = scope.get(GRAFT)
    scope = seen_by(example, scope)
    if graft is not None:
        graft.begin()
    try:
        guard.start()
        if example.setup_code is not None:
            try:
                exec(example.setup_code, scope)  # noqa: S102 - the example
            except Exception as error:
                return Outcome("unusable", error)
        value = eval(example.code, scope)  # noqa: S307 - the example
        guard.stop()
        return Outcome("value", value) if guard.count == refused else Outcome("unusable")
    except TooSlow:
        return Outcome("hangs")
    except (MemoryError, RecursionError, Refused, SystemExit, KeyboardInterrupt, GeneratorExit):
        return Outcome("unusable")
    except Exception as error:
        return Outcome("raises", error) if guard.count == refused else Outcome("unusable")
    finally:
        guard.stop()
        if graft is not None:
            graft.end()


def executed_lines(example: Example, scope: dict[str, Any], guard: Guard, path: str) -> frozenset[int]:
    """Return the lines of the file ``path`` that an evaluation executes."""
    lines: set[int] = set()

    def local(frame: types.FrameType, *_: Any) -> Any:
        lines.add(frame.f_lineno)
        return local

    def enter(frame: types.FrameType, *_: Any) -> Any:
        return local(frame) if frame.f_code.co_filename == path else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        evaluate(example, scope, guard)
    finally:
        sys.settrace(before)
    return frozenset(lines)


def record(example: Example, outcome: Outcome, scope: dict[str, Any], guard: Guard) -> bool:
    """Set what a test of this example expects; return False when it has no exact text."""
    scope = seen_by(example, scope)
    if outcome.kind == "raises":
        kind = type(outcome.value)
        if example.origin >= INVENTED and kind in (TypeError, AttributeError):
            return False  # more likely the call is wrong than the code means to say so
        place = _place(kind, scope)
        if place is None:
            return False
        example.expected = ("raises", kind.__name__, place)
        return True
    if outcome.kind != "value":
        return False
    guard.start()
    try:
        text = exact(outcome.value, scope)
        if text is None:
            return False
        code = compile(text, "<expected>", "eval", dont_inherit=True)
        # What the test will compare with: a plain value may stand for one of a derived class.
        example.expected = ("value", eval(code, dict(scope)), text)  # noqa: S307 - exact text
    except (Exception, Refused, TooSlow):
        return False
    finally:
        guard.stop()
    example.expected_code = code if set(code.co_names) & scope.keys() - HELPERS.keys() else None
    return True


def _place(kind: type, scope: dict[str, Any]) -> str | None:
    """Return the module to import an exception from: empty for builtins, ``.`` for the module under test."""
    if kind.__module__ == "builtins":
        # These say that the call was wrong or the code is; a test that expects them is worth little.
        return "" if kind not in (Exception, NameError, UnboundLocalError, RecursionError, AssertionError) else None
    if scope.get(kind.__name__) is kind:
        return "."
    if kind.__name__.startswith("_") or "<" in kind.__qualname__ or "." in kind.__qualname__:
        return None
    module = sys.modules.get(kind.__module__)
    return kind.__module__ if getattr(module, kind.__name__, None) is kind and "._" not in kind.__module__ else None


def drained(value: Any) -> list[Any] | None:
    """Return the items of an iterator or a similar object that ends soon, or None."""
    if not hasattr(value, "__next__") and not isinstance(value, (deque, type({}.keys()), type({}.values()))):
        return None
    items = []
    for item in value:
        items.append(item)
        if len(items) > LONGEST_ITERATION:
            return None
    return items


def detects(example: Example, outcome: Outcome, scope: dict[str, Any]) -> bool:
    """Return whether a test of this example fails for this outcome of a mutant, whose names are in ``scope``."""
    if example.expected is None:
        return False
    kind, value, _ = example.expected
    if outcome.kind == "unusable":
        return False
    if kind == "raises":
        return outcome.kind != "raises" or value not in {base.__name__ for base in type(outcome.value).__mro__}
    if outcome.kind == "value" and example.expected_code is not None:
        try:  # the mutant has enumerations of its own, which differ from those of the original
            value = eval(example.expected_code, seen_by(example, scope))  # noqa: S307 - exact text
        except Exception:
            return True
    return outcome.kind != "value" or not agrees(value, outcome.value)


def crash(error: Any, root: str, documentation: str) -> str | None:
    """Return the name of the exception when the code crashed, None when it is announced or raised on purpose."""
    kind = type(error)
    if (
        isinstance(error, WRONG_CALLS)
        or not isinstance(error, Exception)
        or re.search(rf"\b{kind.__name__}\b", documentation)
    ):
        return None
    line = ""
    place = error.__traceback__
    while place is not None:
        path = place.tb_frame.f_code.co_filename
        if os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), "")):
            line = linecache.getline(path, place.tb_lineno).strip()
        place = place.tb_next
    if not line or line.startswith("raise"):
        return None
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
