"""Where the project keeps its tests, how it names and writes them, and what they import."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from .confined_runs import ConfinedRuns, Stop
from .test_file import Style

Run = Callable[..., str | None]
"""Runs the project's Python with arguments in the worktree."""
PROBE_SECONDS = 60.0

_TEST = """
import importlib.util, json, sys
extra = {extra!r}
if extra:
    sys.path.insert(0, extra)
try:
    loaded = sys.modules.get({module!r})
    file = getattr(loaded, "__file__", None) or importlib.util.find_spec({module!r}).origin
except Exception:
    file = None
with open({answer!r}, "w", encoding="utf-8") as answer:
    json.dump({{"path": sys.path, "file": file}}, answer)
def test_nothing():
    pass
"""
"""Written in the place of the new tests, and only collected."""

_PLUGIN = """
import json, sys, types
def told(name, value):
    if isinstance(value, types.ModuleType):
        return "import " + value.__name__ + (" as " + name if value.__name__ != name else "")
    place, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if place and own.isidentifier() and getattr(sys.modules.get(place), own, None) is value:
        return "from " + place + " import " + own + (" as " + name if own != name else "")
    return None
def record(item):
    names = item._request.getfixturevalue("doctest_namespace")
    with open({answer!r}, "w", encoding="utf-8") as answer:
        json.dump({{name: told(name, value) for name, value in names.items()}}, answer)
def pytest_collection_modifyitems(items):
    del items[1:]
    for item in items:
        item.runtest = lambda item=item: record(item)
"""
"""Sets up the first example of a module as pytest does, and reports the names it gets instead of running it."""


def find_sources(root: Path, path: PurePosixPath) -> tuple[Path, str]:
    """Return the import root (the first folder above ``path`` that is not a package), and the module's name."""
    folder = path.parent
    names = [] if path.stem == "__init__" else [path.stem]
    while folder.parts and (root / folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    # A namespace package (no __init__.py) below `src`: its name is the whole path below `src`.
    if "src" in folder.parts and folder.name != "src":
        while folder.name != "src":
            names.insert(0, folder.name)
            folder = folder.parent
    name = ".".join(names)
    if not names or not all(part.isidentifier() for part in names):
        raise Stop(
            "bad_request",
            f"{path} cannot be imported: its name is not a valid module name.",
            "Rename it, or choose another file.",
        )
    return root / folder, name


def choose_name(root: Path, path: PurePosixPath, module: str) -> PurePosixPath:
    """Return a free path for the tests: beside existing tests and named by the project's convention."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    folder = test_folder(root, path)
    habit = "{}_test" if uses_suffix(root, folder) else "test_{}"
    long = module.replace(".", "_")
    names = [stem, f"{stem}_examples", f"{long}_examples", *(f"{stem}_examples_{number}" for number in range(2, 100))]
    taken = {file.name for file in root.rglob("*.py") if "site-packages" not in file.parts}
    for name in names:
        candidate = folder / f"{habit.format(name.strip('_'))}.py"
        # Two test modules with the same name confuse pytest unless both folders are packages; so does a folder of it.
        if (root / candidate.with_suffix("")).exists():
            continue
        if not os.path.lexists(root / candidate) and candidate.name not in taken:
            return candidate
    raise Stop(
        "target_exists",
        f"Every file name for the tests of {path} is taken.",
        "Remove or rename some of its test files.",
    )


def test_folder(root: Path, path: PurePosixPath) -> PurePosixPath:
    """Return the test folder that fits ``path`` best."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    folders = sorted(
        PurePosixPath(file.relative_to(root).as_posix()).parent
        for pattern in (f"test_{stem}.py", f"{stem}_test.py", f"test_{stem}_*.py")
        for file in root.rglob(pattern)
        if not any(
            part.startswith(".") or part in {"site-packages", "node_modules"} for part in file.relative_to(root).parts
        )
        and not any(parent.is_symlink() for parent in [file, *file.parents])
    )
    if folders:
        return folders[0]
    for name in ("tests", "test"):
        for parent in [*path.parents][::-1]:
            if (root / parent / name).is_dir() and not (root / parent / name).is_symlink():
                return parent / name
    beside = [*(root / path.parent).glob("test_*.py"), *(root / path.parent).glob("*_test.py")]
    return path.parent if beside else PurePosixPath("tests")


test_folder.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it


def uses_suffix(root: Path, folder: PurePosixPath) -> bool:
    """Return whether the project names its tests ``x_test.py``."""
    return bool([*(root / folder).glob("*_test.py")]) and not [*(root / folder).glob("test_*.py")]


def style_of(root: Path, folder: PurePosixPath) -> Style:
    """Return the line length that the project configures, and the quotes that its tests use."""
    width = 88
    tool = toml_of(root / "pyproject.toml").get("tool", {})
    ruff = {**toml_of(root / "ruff.toml"), **tool.get("ruff", {})} if isinstance(tool, dict) else {}
    for value in (_get(tool, "black", "line-length"), ruff.get("line-length"), _flake8(root)):
        if isinstance(value, int) and 60 <= value <= 200:
            width = value
            break
    single = double = 0
    for path in sorted((root / folder).glob("*.py"))[:20]:
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 400_000:
            text = path.read_text("utf-8", "replace")
            single += len(re.findall(r"(?<![\w'\"])'[^'\"\n]*'(?!')", text))
            double += len(re.findall(r"(?<![\w'\"])\"[^'\"\n]*\"(?!\")", text))
    formatted = bool(_get(tool, "black") or _get(ruff, "format") is not None)
    return Style(width, formatted or double >= single)


def formatters(root: Path) -> list[list[str]]:
    """Return the arguments of the formatters that the project configures, to be run with ``python -m``."""
    tool = toml_of(root / "pyproject.toml").get("tool", {})
    commands = [["black", "-q"]] if _get(tool, "black") is not None else []
    if _get(tool, "ruff") is not None or any((root / name).is_file() for name in ("ruff.toml", ".ruff.toml")):
        commands.append(["ruff", "format", "-q"])
    return commands


def import_mode(root: Path) -> list[str]:
    """Return the option for pytest that the project's own options set: what a test file can import depends on it."""
    for name in ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
        path = root / name
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        option = re.search(r"--import-mode[= ](prepend|append|importlib)\b", text)
        if option:
            return [f"--import-mode={option[1]}"]
    return []


def toml_of(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; nothing if it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _get(table: Any, *names: str) -> Any:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _flake8(root: Path) -> int | None:
    for name in ("setup.cfg", ".flake8", "tox.ini"):
        path = root / name
        length = (
            re.search(r"^max[-_]line[-_]length\s*=\s*(\d+)", path.read_text("utf-8", "replace"), re.MULTILINE)
            if path.is_file()
            else None
        )
        if length:
            return int(length[1])
    return None


class ImportPath:
    """Finds out what a test file in a place of the project can import."""

    def __init__(self, confinement: ConfinedRuns, root: Path, run: Run) -> None:
        """Use the programs of one run."""
        self._confinement = confinement
        self._root = root
        self._run = run
        self.printed = ""
        """What pytest printed last."""

    def of_tests(self, target: PurePosixPath, module: str, extra: str = "") -> tuple[list[str], str | None] | None:
        """Return the import path of a test file and the file that it imports as ``module``.

        None if pytest collects no file there. ``extra`` is a folder that the test file itself puts on its path.
        """
        answer = self._confinement.top / "imports.json"
        place = self._root / target
        with _placed(place, _TEST.format(extra=extra, module=module, answer=str(answer))):
            self._pytest("--collect-only", str(target))
        imported = _read(answer)
        return ([str(folder) for folder in imported["path"] if folder], imported["file"]) if imported else None

    def provided_names(self, path: PurePosixPath) -> dict[str, str]:
        """Return the names that a ``conftest.py`` adds to the namespace of examples, with the imports for them."""
        folders = [self._root / folder for folder in path.parents]
        pages = [folder / "conftest.py" for folder in folders]
        if not any(page.is_file() and b"doctest_namespace" in page.read_bytes() for page in pages):
            return {}
        answer = self._confinement.top / "namespace.json"
        plugin = self._confinement.top / "plugins" / "ghostwriter_namespace.py"
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text(_PLUGIN.format(answer=str(answer)), "utf-8")
        paths = os.pathsep.join([str(plugin.parent), *self._confinement.paths])
        self._pytest("-p", plugin.stem, "--doctest-modules", str(path), PYTHONPATH=paths)
        return {name: line for name, line in _read(answer).items() if line}

    def _pytest(self, *arguments: str, **environment: str) -> None:
        printed = self._run(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", *import_mode(self._root), *arguments,
            seconds=PROBE_SECONDS, **environment,
        )  # fmt: skip
        self.printed = printed or ""


@contextlib.contextmanager
def _placed(place: Path, text: str) -> Iterator[None]:
    """Write a file, and remove it with the folders that were made for it."""
    made = [parent for parent in place.parents if not parent.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.write_text(text, "utf-8")
        yield
    finally:
        place.unlink(missing_ok=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _read(answer: Path) -> dict[str, Any]:
    try:
        answered = json.loads(answer.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    finally:
        answer.unlink(missing_ok=True)
    return answered if isinstance(answered, dict) else {}
