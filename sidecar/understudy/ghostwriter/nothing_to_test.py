"""Say why a module has nothing to test, and which file has."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SHOWN = 4
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def nothing_to_test(root: Path, path: PurePosixPath, sources: Path) -> str:
    """Return why the module at ``path`` has no public function or class; ``sources`` is its import root."""
    try:
        tree = ast.parse((root / path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return "It defines no function and no class."
    private = [node.name for node in ast.walk(tree) if isinstance(node, _DEFINITIONS) and node in _top(tree)]
    if private:
        return f"Its functions and classes are private ({_some(private)}). Choose a module that uses them."
    files = Counter(_imported(root, path, tree, sources))
    if files:
        names = [name for name, _ in files.most_common()]
        return f"It defines nothing itself, it imports from other files. Choose one of them: {_some(names)}."
    return "It defines no function and no class."


def _top(tree: ast.Module) -> list[ast.AST]:
    """Return the statements of a module, also those in its conditions."""
    statements: list[ast.AST] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        statements.append(node)
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            waiting += list(ast.iter_child_nodes(node))
    return statements


def _imported(root: Path, path: PurePosixPath, tree: ast.Module, sources: Path) -> Iterator[str]:
    """Yield, for each name that the module imports from the project, the file that the name comes from."""
    for node in _top(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        folder = root.joinpath(*path.parts[: len(path.parts) - node.level]) if node.level else sources
        named = folder.joinpath(*(node.module or "").split("."))
        for alias in node.names:
            for file in (
                named.with_suffix(".py") if node.module else named,
                named / f"{alias.name}.py",
                named / "__init__.py",
            ):
                if file.is_file() and file != root / path:
                    if alias.name in _defined(file):
                        yield file.relative_to(root).as_posix()
                    break


def _defined(file: Path) -> set[str]:
    """Return the names of the functions and classes of a file."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    return {node.name for node in _top(tree) if isinstance(node, _DEFINITIONS)}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
