"""Collect the files that a request names: files, folders and globs, in one order, within limits.

What is left out is listed, and too much is an error: nothing is cut silently.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.engine.planning.prompt import ALL_BYTES, FILE_BYTES
from understudy.engine.text_recipes import request_paths
from understudy.engine.text_recipes.request_paths import IgnoreRules
from understudy.git import path_rules, repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

MOST_FILES = 10_000
"""More files than that are a mistake, such as a home folder."""
MOST_ENTRIES = 200_000
"""Entries of folders that are looked at."""
MOST_SECONDS = 60.0
"""To look at them."""
LONGEST_PATH = 1024
"""Characters below a named folder; nothing can be reached through a longer path on some systems."""
_MAGIC = frozenset("*?[")
_BINARY_HEAD = 8192
_NAMED = 5


class CorpusLimits(msgspec.Struct, frozen=True):
    """The most that is sent; more is an error."""

    file_bytes: int = FILE_BYTES
    total_bytes: int = ALL_BYTES


class CorpusFile(msgspec.Struct, frozen=True):
    """A file to send."""

    name: str
    """Relative to the caller's folder, or absolute if it is outside of it; C-quoted if it is unusual."""
    content: bytes
    real: str = ""
    """Its path, with links resolved."""


class LeftOut(msgspec.Struct, frozen=True):
    """A file of a named folder that is not sent, and why."""

    name: str
    why: str


class Corpus(msgspec.Struct, frozen=True):
    """The files, in the order in which they are sent: by name, without regard to case."""

    files: tuple[CorpusFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    named_secrets: frozenset[str] = msgspec.field(default_factory=frozenset)
    """Files that were named, and that are links to a file with the name of a secret."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file."""
        return next((file.content for file in self.files if file.name == name), None)


def collect(
    words: Sequence[str],
    folder: Path,
    limits: CorpusLimits,
    *,
    without: Path | None = None,
    unsaved: Mapping[str, bytes] | None = None,
) -> Corpus:
    """Collect what ``words`` name, seen from ``folder``; ``without`` is a file to skip unless it is named itself.

    ``unsaved`` has the content of documents that are open in an editor, by their real path: it is sent instead of what
    is on disk, also if nothing is there yet.

    In folders, only regular files are read: no links, none that are ignored or have the name of a secret, and no
    binary ones. Errors: ``invalid_params`` for a path that does not exist or a glob without a match,
    ``permission_denied``, ``file_too_large``, ``input_too_large``, ``input_empty`` if nothing is left.
    """
    collector = _Collector(folder, limits, without, unsaved or {})
    for word in words:
        collector.add(word)
    corpus = collector.corpus()
    if words and not corpus.files:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            f"No file to send in {', '.join(words[:_NAMED])}.",
            hint="Ignored, binary and secret files of folders are left out; name a file itself to send it.",
            names=[f"{skipped.name}: {skipped.why}" for skipped in corpus.left_out[:_NAMED]] or None,
        )
    return corpus


class _Found(msgspec.Struct, frozen=True):
    """A file before it is read."""

    path: str
    name: str
    size: int
    named: bool
    """Whether the user named the file itself, and not a folder around it."""


class _Collector:
    def __init__(self, folder: Path, limits: CorpusLimits, without: Path | None, unsaved: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._limits = limits
        self._unsaved = unsaved
        self._without = None if without is None else os.path.realpath(without)
        self._found: dict[str, _Found] = {}
        """Real path → file."""
        self._left_out: dict[str, LeftOut] = {}
        self._entries = 0
        self._until = time.monotonic() + MOST_SECONDS

    def add(self, word: str) -> None:
        """Find what one word names."""
        if not word.strip():  # an unset variable of a script, which would name the whole folder
            raise _unusable("An empty path", "names nothing")
        path = os.path.normpath(self._folder / request_paths.expanded(word, self._folder))
        try:
            status = os.stat(path)  # noqa: PTH116 - a string is at hand
            request_paths.require_inside(word, path, self._folder)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.realpath(path) in self._unsaved:
                self._take(path, 0, named=True)
                return
            if not _MAGIC.intersection(word):
                raise _unusable(word, "does not exist") from None
            self._add_glob(word)
            return
        except (OSError, ValueError) as error:
            raise _unreadable(word, error) from None
        if stat.S_ISDIR(status.st_mode):
            self._take_all(self._walk(path))
        elif stat.S_ISREG(status.st_mode):
            self._take(path, status.st_size, named=True)
        else:
            raise _unusable(word, "is not a regular file; pipe it into `-` instead")

    def corpus(self) -> Corpus:
        """Read what was found."""
        self._require_size()
        files: list[CorpusFile] = []
        secrets: set[str] = set()
        total = 0
        for real, entry in sorted(self._found.items(), key=lambda item: (item[1].name.casefold(), item[1].name)):
            content = self._content(real, entry)
            if content is None:
                continue
            total += len(content)
            if total > self._limits.total_bytes:  # a file has grown
                raise self._too_large(total)
            if entry.named and path_rules.looks_secret(os.fsencode(real)):
                secrets.add(entry.name)
            files.append(CorpusFile(entry.name, content, real))
        return Corpus(
            tuple(files), tuple(sorted(self._left_out.values(), key=lambda skipped: skipped.name)), frozenset(secrets)
        )

    def _content(self, real: str, entry: _Found) -> bytes | None:
        content = self._unsaved.get(real)
        if content is None:
            content = self._on_disk(real, entry)
        if content is None:
            return None
        if len(content) > self._limits.file_bytes:
            raise self._file_too_large(entry.name, len(content))
        if b"\0" in content[:_BINARY_HEAD] and not entry.named:  # a named one is reported by the prompt
            self._leave_out(entry.name, "binary")
            return None
        return content

    def _on_disk(self, real: str, entry: _Found) -> bytes | None:
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise _unusable(entry.name, "is not a regular file")
                return file.read(self._limits.file_bytes + 1)
        except OSError as error:
            if entry.named:
                raise _unreadable(entry.name, error) from None
            self._leave_out(entry.name, f"cannot be read ({error.strerror})")
            return None

    def _add_glob(self, word: str) -> None:
        """Find the files that a pattern matches; ``**`` matches folders of any depth, a folder means all its files."""
        import pathspec

        fixed: list[str] = []
        parts = request_paths.expanded(word, self._folder).parts
        while parts and not _MAGIC.intersection(parts[0]):
            fixed.append(parts[0])
            parts = parts[1:]
        root = os.path.normpath(self._folder.joinpath(*fixed))
        if not os.path.isdir(root):  # noqa: PTH112 - a string is at hand
            raise _unusable(word, "matches nothing")
        request_paths.require_inside(word, root, self._folder)
        try:
            spec = pathspec.GitIgnoreSpec.from_lines(["/" + "/".join(parts)])
        except ValueError:
            raise _unusable(word, "is not a pattern") from None
        before = len(self._found) + len(self._left_out)
        start = len(root.rstrip("/")) + 1
        seen = [walked for walked in self._walk(root) if spec.match_file(walked[0][start:])]
        self._take_all(seen)
        if not seen and before == len(self._found) + len(self._left_out):
            raise _unusable(word, "matches nothing")

    def _walk(self, root: str) -> Iterator[tuple[str, int]]:
        """Return the path and size of every regular file below a folder that no rule excludes."""
        real = os.path.realpath(root)
        top = str(repository.top_of(Path(real)))
        is_repository = os.path.lexists(os.path.join(top, ".git"))  # noqa: PTH118 - a string is at hand
        pending: list[tuple[str, str, IgnoreRules]] = [
            (root, real, request_paths.rules_above(real, top if is_repository else None))
        ]
        while pending:
            shown, folder, rules = pending.pop()
            try:
                with os.scandir(folder) as entries:
                    bounded = itertools.islice(entries, MOST_ENTRIES + 1)
                    inside = sorted(bounded, key=lambda entry: entry.name)
            except OSError as error:
                if folder == real:
                    raise _unreadable(root, error) from None
                self._leave_out(self._name_of(shown), f"cannot be read ({error.strerror})")
                continue
            self._entries += len(inside)
            if self._entries > MOST_ENTRIES:
                raise _too_many(f"more than {MOST_ENTRIES} entries")
            rules = rules.entered(folder, [entry.name for entry in inside])
            for entry in inside:
                if time.monotonic() > self._until:
                    raise _too_many(f"so many files and rules that reading them takes more than {MOST_SECONDS:g} s")
                path = os.path.join(shown, entry.name)  # noqa: PTH118 - a string is at hand
                if len(entry.path) - len(real) > LONGEST_PATH:
                    self._leave_out(self._name_of(shown), "its path is too long")
                    break
                is_folder = entry.is_dir(follow_symlinks=False)
                if request_paths.is_excluded(entry.name, folder=is_folder):
                    continue
                if rules.ignores(entry.path, folder=is_folder):
                    continue
                if is_folder:
                    pending.append((path, entry.path, rules))
                elif entry.is_symlink():
                    self._leave_out(self._name_of(path), "a link, which is followed only if it is named itself")
                elif not entry.is_file(follow_symlinks=False):
                    self._leave_out(self._name_of(path), "not a regular file")
                elif path_rules.looks_secret(os.fsencode(entry.name)):
                    self._leave_out(self._name_of(path), "its name suggests that it contains secrets")
                else:
                    yield path, entry.stat(follow_symlinks=False).st_size

    def _take_all(self, files: Iterable[tuple[str, int]]) -> None:
        for path, size in files:
            self._take(path, size, named=False)

    def _take(self, path: str, size: int, *, named: bool) -> None:
        real = os.path.realpath(path)
        if not named and real == self._without:
            return
        if real in self._unsaved:
            size = len(self._unsaved[real])
        earlier = self._found.get(real)
        if earlier is None or (named and not earlier.named):
            self._found[real] = _Found(path, self._name_of(path), size, named)
        if len(self._found) > MOST_FILES:
            raise _too_many(f"more than {MOST_FILES} files")

    def _require_size(self) -> None:
        """Refuse too much before anything is read."""
        for entry in self._found.values():
            if entry.size > self._limits.file_bytes:
                raise self._file_too_large(entry.name, entry.size)
        total = sum(entry.size for entry in self._found.values())
        if total > self._limits.total_bytes:
            raise self._too_large(total)

    def _too_large(self, total: int) -> UnderstudyError:
        largest = sorted(self._found.values(), key=lambda entry: -entry.size)[:_NAMED]
        return UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"The {len(self._found)} files together have {total} bytes; at most {self._limits.total_bytes} are sent.",
            hint="Name fewer files, or raise the limit (--max-bytes, `[input] max_bytes`). These are the largest.",
            names=[f"{entry.name}: {entry.size} bytes" for entry in largest],
        )

    def _file_too_large(self, name: str, size: int) -> UnderstudyError:
        return UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"{name} has {size} bytes; at most {self._limits.file_bytes} are sent of one file.",
            hint="Pipe a part of it into `-`, or raise the limit (--max-file-bytes, `[input] max_file_bytes`).",
        )

    def _leave_out(self, name: str, why: str) -> None:
        self._left_out[name] = LeftOut(name, why)

    def _name_of(self, path: str) -> str:
        relative = os.path.relpath(path, self._folder)
        shown = path if relative == ".." or relative.startswith("../") else relative
        return path_quoting.quote(os.fsencode(shown))


def read_input(stream_read: Callable[[int], bytes], limit: int) -> str:
    """Return the text of standard input; raise ``input_too_large`` for more than ``limit`` bytes, and for no text.

    Bytes that are not UTF-8 are replaced, as those of files are.
    """
    content = stream_read(limit + 1)
    if len(content) > limit:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"Standard input has more than {limit} bytes.",
            hint="Pipe a part of it, or raise the limit (--max-bytes, `[input] max_bytes`).",
        )
    if b"\0" in content[:_BINARY_HEAD]:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "Standard input is binary, and only text can be sent.", hint="Pipe a text."
        )
    text = content.decode("utf-8", "replace")
    if not text.strip():
        raise UnderstudyError(ErrorKind.INPUT_EMPTY, "Standard input is empty.", hint="Pipe a text into the command.")
    return text


def _unusable(word: str, why: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.INVALID_PARAMS, f"{word} {why}.", hint="Name a file, a folder, a glob, or `-`.")


def _unreadable(word: str, error: OSError | ValueError) -> UnderstudyError:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UnderstudyError(ErrorKind.PERMISSION_DENIED, f"{word} cannot be read: {why}.", hint="Name other files.")


def _too_many(what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INPUT_TOO_LARGE, f"The named folders have {what}.", hint="Name folders further down."
    )
