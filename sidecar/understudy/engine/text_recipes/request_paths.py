"""The paths of a request: what a word of the command line names, what is not sent, and the file that is written.

What is not sent of a named folder are default excludes, and what ``.gitignore`` rules say, without starting git. Files
that git tracks although a rule ignores them are left out too, because the index is not read.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.files import durable
from understudy.git import repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_BYTES = 16 << 20
"""A larger existing file is not replaced."""
EXCLUDED_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", ".next", "build", "dist", "node_modules", ".venv", "venv", "__pycache__"),
        *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    }
)
"""Folders that are never read unless they are named themselves: histories, dependencies, and what a build makes."""
EXCLUDED_FILES = frozenset({".DS_Store", ".coverage"})
EXCLUDED_ENDINGS = (".pyc",)
_RULES_LIMIT = 1 << 20
"""Most bytes of one file of rules; rules that are not read would let files through."""
_MOST_RULES = 20_000
_MOST_STARS = 4
_MOST_DOUBLE_STARS = 3
"""Matching takes the length of a path to the power of the number of stars."""
_NO_STARS = r"(?:\\.|\[[^\]\\]+\]|[^\\\[*])*"
_TO_STARS, _REST = re.compile(_NO_STARS + r"(\*+)"), re.compile(_NO_STARS)


@dataclass(frozen=True)
class Target:
    """A checked path, and what was there when it was checked."""

    name: str
    """As the user named it, for messages; C-quoted if it is unusual."""
    path: Path
    """Its real folder, and its name."""
    before: bytes | None
    """The content of the existing file; None if there is none."""
    mode: int


def check_target(word: str, folder: Path, *, root: Path | None, may_exist: bool) -> Target:
    """Return the target that ``word`` names, seen from ``folder``; writes nothing.

    The user may name any folder, but a link must not lead out of the repository around ``folder``, nor out of ``root``.
    Errors: ``path_escape`` (also for a link or something else that is not a regular file, and below ``.git``),
    ``target_exists`` unless it ``may_exist``, ``permission_denied``, ``file_too_large``.
    """
    name = path_quoting.quote(os.fsencode(word))
    named = Path(os.path.normpath(folder / expanded(word, folder)))
    real = Path(os.path.realpath(named.parent)) / named.name
    if not named.name or word.endswith(("/", "/.")):
        raise _refused(name, "names a folder")
    if root is not None and not real.is_relative_to(os.path.realpath(root)):
        raise _refused(name, f"is outside of {os.path.realpath(root)}")
    top = leads_out(str(named), str(real), folder)
    if top is not None:
        raise _refused(name, f"passes through a link that leads out of {top}")
    if ".git" in (part.lower() for part in real.parts):
        raise _refused(name, "is inside of a git directory")
    try:
        before, mode = _current(real)
    except IsADirectoryError:
        raise _refused(name, "is a folder") from None
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED, f"{name} cannot be read: {error.strerror}.", hint="Name another file."
        ) from None
    if before is not None and not may_exist:
        raise _exists(name)
    return Target(name, real, before, mode)


def write(target: Target, content: str) -> None:
    """Write ``content`` into a new file beside the target and rename it; a failure leaves the target as it was.

    Errors: ``conflict`` if the target changed since it was checked, ``target_exists`` if it was created since,
    ``permission_denied``, ``disk_full``.
    """
    path = target.path
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if Path(os.path.realpath(path.parent)) != path.parent:
            raise _refused(target.name, "has a folder that was replaced by a link meanwhile")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode("utf-8", "surrogatepass"))
                if target.before is not None:
                    os.fchmod(descriptor, target.mode)
                file.flush()
                os.fsync(descriptor)
            if target.before is None:
                # Unlike a rename, a link never replaces a file that was created meanwhile.
                os.link(temporary, path)
            else:
                if _current(path)[0] != target.before:
                    raise UnderstudyError(
                        ErrorKind.CONFLICT,
                        f"{target.name} changed while the model was working, and was not replaced.",
                        hint="Run the command again.",
                    )
                temporary.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    except FileExistsError:
        raise _exists(target.name) from None
    except OSError as error:
        failure = durable.failure(error, path)
        kind = failure.kind if failure.kind is ErrorKind.DISK_FULL else ErrorKind.PERMISSION_DENIED
        raise UnderstudyError(
            kind, f"{target.name} cannot be written: {error.strerror or error}.", hint="Name another file."
        ) from None


def difference(target: Target, content: str) -> str:
    """Return the unified diff from the existing file, or from nothing, to ``content``."""
    from understudy.model.text import patches

    name = target.name
    old = f"a/{name}" if target.before is not None else "/dev/null"
    return patches.unified((target.before or b"").decode("utf-8", "replace"), content, old, f"b/{name}")


def _current(path: Path) -> tuple[bytes | None, int]:
    """Return the content and mode of a regular file; (None, 0) if there is none."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path_quoting.quote(os.fsencode(path)), "is a link or a special file")
    if status.st_size > MOST_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE, f"{path} has {status.st_size} bytes and is not replaced.", hint="Name a new file."
        )
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1), stat.S_IMODE(status.st_mode) & 0o777


def _exists(name: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.TARGET_EXISTS,
        f"{name} already exists.",
        hint="Add --force to replace it, --diff to see the difference, or --stdout to print the file.",
    )


def _refused(name: str, why: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.PATH_ESCAPE, f"{name} {why}.", hint="Nothing was written. Name another target.")


def expanded(word: str, folder: Path) -> Path:
    """Return the path with ``~`` expanded, unless ``folder`` has an entry ``~``: a repository may have one."""
    path = Path(word)
    if not path.parts or not path.parts[0].startswith("~") or os.path.lexists(folder / path.parts[0]):
        return path
    return path.expanduser()


def leads_out(path: str, real: str, folder: Path) -> Path | None:
    """Return the repository around ``folder`` if ``path`` is in it and ``real``, what its links lead to, is not.

    Without a repository, the folder itself counts.
    """
    here = Path(os.path.realpath(folder))
    top = repository.top_of(here)
    seen = Path(os.path.normpath(here / os.path.relpath(path, folder)))
    return top if seen.is_relative_to(top) and not Path(real).is_relative_to(top) else None


def require_inside(word: str, path: str, folder: Path) -> None:
    """Raise ``path_escape`` if a link leads out of the repository around ``folder``."""
    real = os.path.realpath(path)
    top = leads_out(path, real, folder)
    if top is not None:
        name, target = (path_quoting.quote(os.fsencode(one)) for one in (word, real))
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{name} is or passes through a link that leads out of {top}.",
            hint=f"Nothing was sent. To send it, name what the link leads to: {target}",
        )


class IgnoreRules:
    """The rules that apply in one folder, those of the folders above it included."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        """Apply ``specs``: each with the folder it belongs to, and the later ones first."""
        self._specs = specs

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Return whether the rules ignore an absolute path; the caller has asked for the folders above it."""
        for base, spec in reversed(self._specs):
            relative = path[len(base) :] + ("/" if folder else "")
            decided = spec.check_file(relative).include
            if decided is not None:
                return decided
        return False

    def entered(self, folder: str, names: Sequence[str]) -> IgnoreRules:
        """Return the rules inside ``folder``, which has entries with these ``names``."""
        if ".gitignore" not in names:
            return self
        spec = _spec_of(Path(folder, ".gitignore"))
        return self if spec is None else IgnoreRules((*self._specs, (_base(folder), spec)))


def rules_above(folder: str, top: str | None) -> IgnoreRules:
    """Return the rules that apply to the named ``folder`` from outside of it.

    ``top`` is the repository around it. If the rules ignore the folder itself, none applies: the user named it.
    """
    if top is None:
        return IgnoreRules()
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - a string is wanted
    specs = [
        (_base(top), spec)
        for path in (Path(home, "git", "ignore"), Path(top, ".git", "info", "exclude"))
        if (spec := _spec_of(path)) is not None
    ]
    rules = IgnoreRules(tuple(specs))
    parts = Path(os.path.relpath(folder, top)).parts
    current = top
    for part in parts:
        rules = rules.entered(current, (".gitignore",))
        current = os.path.join(current, part)  # noqa: PTH118 - a string is wanted
        if rules.ignores(current, folder=True):
            return IgnoreRules()
    return rules


def is_excluded(name: str, *, folder: bool) -> bool:
    """Return whether a name inside a named folder is excluded by default."""
    if folder:
        return name in EXCLUDED_FOLDERS
    return name in EXCLUDED_FILES or name.endswith(EXCLUDED_ENDINGS)


def _base(folder: str) -> str:
    return folder.rstrip("/") + "/"


def _spec_of(path: Path) -> GitIgnoreSpec | None:
    """Return the rules of a file; None if it is missing, a link, or cannot be read. Git follows no link here either.

    Raises ``input_too_large`` for too many rules.
    """
    try:
        content = durable.read_whole(path, _RULES_LIMIT + 1)
    except OSError:
        return None
    text = content.decode("utf-8", "surrogateescape")
    lines = [line for line in text.removeprefix("\ufeff").splitlines() if line.strip() and not line.startswith("#")]
    if len(content) > _RULES_LIMIT or len(lines) > _MOST_RULES:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"{path_quoting.quote(os.fsencode(path))} has more rules than are applied ({_MOST_RULES}, 1 MiB).",
            hint="Name the files themselves, and no folder.",
        )
    lines = [line for rule in lines if (line := simplified(rule)) is not None]
    if not lines:
        return None
    import pathspec

    try:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError:  # git ignores a pattern that it cannot read
        return pathspec.GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def simplified(rule: str) -> str | None:
    """Return a rule that is matched in bounded time, and that lets no file through that ``rule`` leaves out.

    A rule with many stars is cut after some of them, so it leaves out more; None for an exception to the rules.
    """
    if rule.count("*") <= _MOST_DOUBLE_STARS:
        return rule
    negated = rule.startswith("!")
    end, stars, double = int(negated), 0, 0
    while (match := _TO_STARS.match(rule, end)) is not None:
        stars, double = stars + 1, double + (len(match[1]) > 1)
        if stars > _MOST_STARS or double > _MOST_DOUBLE_STARS:
            return None if negated else rule[:end] or "*"
        end = match.end()
    if _REST.fullmatch(rule, end):
        return rule
    return None if negated else rule[:end] or "*"  # a bracket without an end or with an escape may hide stars


def _is_pattern(line: str) -> bool:
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
