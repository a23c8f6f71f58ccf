"""Redirect *editable* installs of the project from the user's checkout to the judged worktree.

With an editable install, the environment imports the user's checkout wherever a program runs, so a check in another
worktree would test the wrong files and pass. There are two mechanisms: lines of ``.pth`` files that are paths (added
to ``sys.path``), and lines that import a module which maps names to files (setuptools' ``__editable___*_finder``,
hatchling's and pdm's ``_editable_impl_*``, meson-python's and scikit-build-core's loaders). Paths are mapped and come
first. Modules are *shadowed*: ``PYTHONPATH`` applies before ``.pth`` lines run, so Python imports a copy of the module
from there, in which every path inside the checkout is replaced by the same path in the worktree. Every process that
the check starts inherits this.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_ENVIRONMENT_FOLDERS = frozenset({"site-packages", "dist-packages", "__pypackages__", "node_modules"})
"""Folders of installed packages, at any depth."""


class Checkout:
    """The user's checkout under all its names (links resolved or not), without the environments inside it."""

    def __init__(self, workspace: Path, prefixes: Iterable[str] = ()) -> None:
        """Exclude the folders of the environment, ``prefixes``; one that contains the whole checkout is ignored."""
        self.roots = _spellings(str(workspace))
        self.prefixes = [
            spelling
            for prefix in prefixes
            for spelling in _spellings(prefix)
            if any(_below(spelling, root) and spelling != root for root in self.roots)
        ]

    def relative(self, path: str) -> str | None:
        """Return ``path`` relative to the checkout; ``None`` outside it and inside an environment."""
        for spelling in _spellings(path):
            for root in self.roots:
                if not _below(spelling, root) or any(_below(spelling, prefix) for prefix in self.prefixes):
                    continue
                relative = os.path.relpath(spelling, root)
                if not _ENVIRONMENT_FOLDERS.intersection(Path(relative).parts):
                    return relative
        return None


def mapped_paths(paths: Sequence[str], checkout: Checkout, tree: Path) -> list[str]:
    """Map import locations inside the checkout to the worktree; keep their order, drop duplicates."""
    mapped: dict[str, None] = {}
    for path in paths:
        relative = checkout.relative(path) if os.path.isabs(path) else None  # noqa: PTH117 - strings of another program
        if relative is not None:
            mapped.setdefault(os.path.normpath(tree / relative))
    return list(mapped)


def shadowed(modules: Mapping[str, str], checkout: Checkout, tree: Path) -> dict[str, str]:
    """Return ``{module name: rewritten source}`` for every module that contains a path inside the checkout."""
    shadows: dict[str, str] = {}
    for name, source in modules.items():
        rewritten = _with_mapped_strings(source, checkout, tree)
        if rewritten is not None:
            shadows[name] = rewritten
    return shadows


def _with_mapped_strings(source: str, checkout: Checkout, tree: Path) -> str | None:
    try:
        parsed = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    lines = source.encode().split(b"\n")
    replacements: list[tuple[int, int, int, int, bytes]] = []
    for node in ast.walk(parsed):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        relative = checkout.relative(node.value) if os.path.isabs(node.value) else None  # noqa: PTH117
        if relative is None or node.end_lineno is None or node.end_col_offset is None:
            continue
        mapped = repr(os.path.normpath(tree / relative)).encode()
        replacements.append((node.lineno - 1, node.col_offset, node.end_lineno - 1, node.end_col_offset, mapped))
    if not replacements:
        return None
    for first, column, last, end, text in sorted(replacements, reverse=True):
        lines[first : last + 1] = [lines[first][:column] + text + lines[last][end:]]
    return b"\n".join(lines).decode()


def _spellings(path: str) -> list[str]:
    return list(dict.fromkeys([os.path.normpath(path), os.path.realpath(path)]))


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
