"""Give functions of the loaded module the code of a mutant, where a second load of the module would not show it.

Decorators such as ``typeguard.typechecked`` compile a function again from the file on disk, so a mutant that is loaded
beside the module would run the original's code. And some modules take too long to be loaded for each mutant.
"""

from __future__ import annotations

import ast
import inspect
import types
from typing import Any, Iterator

GRAFT = "<graft>"
"""The key of a scope under which its graft is; no name of a module."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Function:
    """A function of the module or of one of its classes: where it is written, and the object that runs."""

    __slots__ = ("first", "last", "line", "loaded", "path")

    def __init__(self, path: tuple[str, ...], node: Any, loaded: types.FunctionType) -> None:
        """Remember its names from the outside in, its lines, and the object below its decorators."""
        self.path = path
        self.first, self.line, self.last = _first_line(node), node.lineno, node.end_lineno
        self.loaded = loaded

    def code_in(self, compiled: types.CodeType) -> types.CodeType | None:
        """Return the code of this function in a compiled piece of the module."""
        codes = [compiled]
        for name in self.path:
            inner = [c for code in codes for c in code.co_consts if isinstance(c, types.CodeType)]
            codes = [code for code in inner if code.co_name == name]
        return next((code for code in codes if self.first <= code.co_firstlineno <= self.line), None)

    def is_as_written(self, code: types.CodeType) -> bool:
        """Return whether the loaded function runs what is in the file, and not what a decorator made of it."""
        loaded = self.loaded.__code__
        return (loaded.co_names, loaded.co_varnames) == (code.co_names, code.co_varnames)


class Graft:
    """The code of a mutant for one function; while an example is evaluated, the function runs it."""

    __slots__ = ("caches", "code", "function", "original")

    def __init__(self, function: types.FunctionType, code: types.CodeType, caches: list[Any]) -> None:
        """Remember the original's code."""
        self.function = function
        self.code = code
        self.original = function.__code__
        self.caches = caches

    def begin(self) -> None:
        """Run the mutant from now on."""
        self.function.__code__ = self.code
        self._forget()

    def end(self) -> None:
        """Run the original again."""
        self.function.__code__ = self.original
        self._forget()

    def _forget(self) -> None:
        for clear in self.caches:
            clear()


def functions_of(tree: ast.Module, module: types.ModuleType) -> Iterator[Function]:
    """Yield the functions of a module and the methods of its classes that were loaded as they are written."""
    waiting: list[tuple[tuple[str, ...], Any, dict[str, Any]]] = [((), node, vars(module)) for node in tree.body]
    while waiting:
        path, node, namespace = waiting.pop()
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            waiting += [(path, inner, namespace) for inner in ast.iter_child_nodes(node)]
        if not isinstance(node, _DEFINITIONS) or node.name not in namespace:
            continue
        value, path = namespace[node.name], (*path, node.name)
        if isinstance(node, ast.ClassDef):
            waiting += [(path, inner, dict(vars(value))) for inner in node.body if inspect.isclass(value)]
            continue
        for function in _functions_in(value):
            if _first_line(node) <= function.__code__.co_firstlineno <= node.lineno:
                yield Function(path, node, function)
                break


def caches_of(module: types.ModuleType) -> list[Any]:
    """Return the ``cache_clear`` of every cached function of the module and of its classes."""
    values = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    inner = [member for value in values if inspect.isclass(value) for member in vars(value).values()]
    clears = [
        getattr(wrapped, "cache_clear", None) for value in [*values, *inner] for wrapped in (value, _below(value))
    ]
    return [clear for clear in clears if callable(clear)]


def _functions_in(value: Any) -> Iterator[types.FunctionType]:
    """Yield the function below decorators, and those of a property."""
    for name in ("", "__func__", "fget", "fset", "fdel", "func"):
        function = getattr(value, name, None) if name else value
        try:
            function = inspect.unwrap(function) if callable(function) else None
        except ValueError:  # it wraps itself
            continue
        if isinstance(function, types.FunctionType):
            yield function


def _below(value: Any) -> Any:
    return getattr(value, "__func__", None)


def _first_line(node: Any) -> int:
    return int(min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]]))
