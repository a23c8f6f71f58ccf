"""Compare versions of a Python file by what of them runs: declarations that nothing uses at run time do not."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import re
import sys
import warnings
from collections.abc import Collection, Iterator

_MOST_STEPS = 20
_KEPT_FILES = 4
"""Files of which the syntax is kept: each place of a file asks for it again."""
_ACTING = frozenset({"__future__", "antigravity", "idlelib", "readline", "rlcompleter", "site", "this", "turtle"})
"""Modules that do something when they are imported."""
_ABSTRACT = frozenset({"abstractmethod", "abc.abstractmethod"})
_PROTOCOLS = frozenset({"Protocol", "typing.Protocol", "typing_extensions.Protocol"})
_VARIABLES = frozenset(f"{prefix}{name}" for prefix in ("", "typing.", "t.") for name in ("TypeVar", "ParamSpec"))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OVERLOADS = frozenset({"overload", "typing.overload", "t.overload"})
_READS_NO_ANNOTATIONS = re.compile(
    r"(?:staticmethod|classmethod|property|\w+\.setter|(?:abc\.)?abstractmethod|(?:typing\.|t\.)?(?:override|final)|"
    r"(?:functools\.)?(?:cache|cached_property|lru_cache|wraps)|(?:contextlib\.)?(?:async)?contextmanager|"
    r"pytest\.(?:fixture|mark\.\w+))$"
)
"""Matches decorators to which annotations are nothing."""
_GENERIC = frozenset(
    prefix + name
    for prefix in ("", "typing.", "t.", "collections.abc.")
    for name in (
        *("Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Mapping", "Optional", "Sequence"),
        *("Set", "Tuple", "Type", "Union", "dict", "frozenset", "list", "set", "tuple", "type"),
    )
)
"""What a type is made of others with, such as an alias that only annotations use."""


@functools.lru_cache(maxsize=_KEPT_FILES)
def python_syntax(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a Python file, which no reader may change; None if Python cannot read it."""
    return _parsed(source)


def _parsed(source: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def differs_in_annotations(before: bytes, after: bytes) -> bool:
    """Return whether two versions of a Python file differ only in annotations that are plain types.

    Not those of classes, which make fields in many libraries, nor of functions with unknown decorators. An annotation
    with a call or another expression runs code of its own.
    """
    if b"overload" not in before + after:
        for pair in _replaced_definitions(before, after):
            old, new = (ast.dump(_WithoutAnnotations().visit(copy.deepcopy(definition))) for definition in pair)
            if old != new:
                return False  # found without a look at the rest of the file
    return (text := _without_annotations(after)) is not None and text == _without_annotations(before)


@functools.lru_cache(maxsize=_KEPT_FILES)
def plain_annotations(source: bytes) -> frozenset[tuple[int, int]]:
    """Return where the annotations begin that ``differs_in_annotations`` ignores: lines, from 1, and bytes in them."""
    module = python_syntax(source)
    if module is None:
        return frozenset()
    return _annotations(module) - _annotations(_WithoutAnnotations().visit(copy.deepcopy(module)))


def _annotations(module: ast.Module) -> frozenset[tuple[int, int]]:
    nodes = [getattr(node, field, None) for node in ast.walk(module) for field in ("annotation", "returns")]
    return frozenset((node.lineno, node.col_offset) for node in nodes if node is not None)


def _replaced_definitions(before: bytes, after: bytes) -> list[tuple[ast.stmt, ast.stmt]]:
    """Return the functions and classes whose text differs, if both files have as many statements; else none."""
    modules = python_syntax(before), python_syntax(after)
    if modules[0] is None or modules[1] is None or len(modules[0].body) != len(modules[1].body):
        return []
    texts = [source.splitlines() for source in (before, after)]
    return [
        (old, new)
        for old, new in zip(modules[0].body, modules[1].body, strict=True)
        if isinstance(old, _DEFINITIONS) and isinstance(new, _DEFINITIONS)
        if texts[0][old.lineno - 1 : old.end_lineno] != texts[1][new.lineno - 1 : new.end_lineno]
    ]


@functools.lru_cache(maxsize=4)
def _without_annotations(source: bytes) -> str | None:
    """Return the syntax of a Python file without annotations of plain types; None if it cannot be read."""
    module = _parsed(source)
    return ast.dump(_WithoutAnnotations().visit(module)) if module is not None else None


def unused_names(before: bytes, after: bytes) -> frozenset[str] | None:
    """Return the names by which alone two versions of a Python file differ, and which nothing in them uses.

    These are imports of the standard library, and further names in ``__all__``: they matter only to a file that
    imports them from here. None if something else differs.
    """
    if any(ast.dump(old) != ast.dump(new) for old, new in _replaced_definitions(before, after)):
        return None
    modules = [module for source in (before, after) if (module := _parsed(source)) is not None]
    if len(modules) < 2:
        return None
    removed = [_without_unused(module) for module in modules]
    names = removed[0] ^ removed[1]
    exported = [[item for statement in module.body for item in _exported(statement)] for module in modules]
    if exported[0] != exported[1] and set(exported[0]) <= set(exported[1]):
        for module in modules:
            module.body = [statement for statement in module.body if not _exported(statement)]
        names.add("*")
    return frozenset(names) if names and ast.dump(modules[0]) == ast.dump(modules[1]) else None


def _without_unused(module: ast.Module) -> set[str]:
    """Leave out the imports of the standard library that a module does not use; return their names."""
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    used |= {node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names: set[str] = set()
    body: list[ast.stmt] = []
    for statement in module.body:
        match statement:
            case ast.Import(names=aliases):
                roots = [alias.name.partition(".")[0] for alias in aliases]
            case ast.ImportFrom(module=str(source), names=aliases, level=0):
                roots = [source.partition(".")[0]] * len(aliases)
            case _:
                body.append(statement)
                continue
        bound = [(alias.asname or alias.name).partition(".")[0] for alias in aliases]
        idle = [
            root in sys.stdlib_module_names - _ACTING and name not in used and name != "*"
            for root, name in zip(roots, bound, strict=True)
        ]
        names.update(name for name, is_idle in zip(bound, idle, strict=True) if is_idle)
        statement.names = [alias for alias, is_idle in zip(aliases, idle, strict=True) if not is_idle]
        body += [statement] if statement.names else []
    module.body = body
    return names


def _exported(statement: ast.stmt) -> list[str]:
    """Return the names in ``__all__`` if a statement gives it a list of texts."""
    match statement:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=items) | ast.Tuple(elts=items)):
            names = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return names if len(names) == len(items) else []
        case _:
            return []


class _WithoutAnnotations(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._without(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._without(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.body = _without_overloads(node.body)
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        node.body = [_without_plain_annotation(statement) for statement in _without_overloads(node.body)]
        # What is left out uses other types, which nothing needs then.
        for _ in range(_MOST_STEPS):
            names = (child for child in ast.walk(node) if isinstance(child, ast.Name))
            used = {name.id for name in names if not isinstance(name.ctx, ast.Store)}
            kept = [statement for statement in node.body if not _only_for_annotations(statement, used)]
            if len(kept) == len(node.body):
                break
            node.body = kept
        return node

    def _without(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        names = [ast.unparse(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list]
        if not all(map(_READS_NO_ANNOTATIONS.match, names)):
            return node
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in every:
            if argument is not None and _is_plain_type(argument.annotation):
                argument.annotation = None
        if _is_plain_type(node.returns):
            node.returns = None
        # Within a function, nothing evaluates them.
        node.body = [_without_annotation(statement) for statement in node.body]
        return node


def _without_overloads(body: list[ast.stmt]) -> list[ast.stmt]:
    """Leave out overloads, which the function of the same name behind them replaces."""
    kept: list[ast.stmt] = []
    defined: set[str] = set()
    for statement in reversed(body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if [ast.unparse(decorator) in _OVERLOADS for decorator in statement.decorator_list] == [True]:
                if statement.name in defined:
                    continue
            else:
                defined.add(statement.name)
        kept.append(statement)
    return kept[::-1]


def _only_for_annotations(statement: ast.stmt, used: Collection[str]) -> bool:
    """Return whether a statement imports only types that nothing but annotations uses, or defers their evaluation."""
    match statement:
        case ast.ImportFrom(module="__future__", names=names):
            return all(alias.name == "annotations" or _is_always_on(alias.name) for alias in names)
        case ast.ImportFrom(module="typing" | "collections.abc", names=names, level=0):
            return not any(alias.name == "*" or (alias.asname or alias.name) in used for alias in names)
        case ast.Import(names=[ast.alias(name="typing", asname=None)]):
            return "typing" not in used
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=value)) if _is_plain_type(
            statement.value
        ):
            return ast.unparse(value) in _GENERIC and name not in used
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=function, args=[ast.Constant(), *bounds], keywords=keywords),
        ):
            plain = all(map(_is_plain_type, (*bounds, *(keyword.value for keyword in keywords))))
            return plain and ast.unparse(function) in _VARIABLES and name not in used
        case ast.ClassDef(name=name, bases=[base], keywords=[], decorator_list=[]):
            return ast.unparse(base) in _PROTOCOLS and name not in used and all(map(_only_declares, statement.body))
        case _:
            return False


def _is_always_on(feature: str) -> bool:
    release = getattr(getattr(__future__, feature, None), "mandatory", None)
    return release is not None and release < (3, 1)


def _only_declares(statement: ast.stmt) -> bool:
    """Return whether a statement in a class only says that its subclasses have an attribute or a method."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.AnnAssign(value=None):
            return True
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            kinds = {ast.unparse(decorator) for decorator in statement.decorator_list}
            return all(map(_is_idle, body)) and kinds <= {"property", *_ABSTRACT} and not statement.args.defaults
        case _:
            return False


def _is_idle(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def only_abstract(source: bytes, lines: Collection[int]) -> bool:
    """Return whether some lines of a Python file, from 1, have only methods that subclasses must define.

    Without a base class of ``abc``, such a method can be called, and does nothing.
    """
    module = python_syntax(source)
    if module is None:
        return False
    names = {name for statement in module.body for name in _imported_from_abc(statement)}
    declared: set[int] = set()
    for outer in ast.walk(module):
        if isinstance(outer, ast.ClassDef):
            bases = {*map(ast.unparse, outer.bases), *(ast.unparse(keyword.value) for keyword in outer.keywords)}
            for inner in outer.body if bases & names else ():
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and _only_declares(inner):
                    kinds = {ast.unparse(decorator) for decorator in inner.decorator_list}
                    if kinds & names & _ABSTRACT:
                        first = min(decorator.lineno for decorator in inner.decorator_list)
                        declared.update(range(first, (inner.end_lineno or first) + 1))
    text = source.splitlines()
    return bool(declared) and all(line in declared or not text[line - 1].strip() for line in lines)


def _imported_from_abc(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Import(names=aliases):
            names = {"ABC", "ABCMeta", "abstractmethod"} if any(alias.name == "abc" for alias in aliases) else set()
            yield from (f"abc.{name}" for name in names)
        case ast.ImportFrom(module="abc", names=aliases, level=0):
            yield from (alias.name for alias in aliases if alias.asname is None)


def _without_plain_annotation(statement: ast.stmt) -> ast.stmt:
    is_plain = isinstance(statement, ast.AnnAssign) and _is_plain_type(statement.annotation)
    return _without_annotation(statement) if is_plain else statement


def _without_annotation(statement: ast.stmt) -> ast.stmt:
    match statement:
        case ast.AnnAssign(target=ast.Name() as target, value=value) if value is not None:
            return ast.copy_location(ast.Assign(targets=[target], value=value), statement)
        case _:
            return statement


def _is_plain_type(annotation: ast.expr | None) -> bool:
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.BitOr, ast.Load)
    return annotation is not None and all(isinstance(node, plain) for node in ast.walk(annotation))
