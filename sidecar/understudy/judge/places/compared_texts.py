"""Find the places in which nothing that runs changed, by the texts of both versions alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from understudy.judge.deciding import deciding_files, restored_parts
from understudy.judge.places.changed_places import Place, undone
from understudy.judge.runs.check_run import ResultToJudge
from understudy.judge.runs.judged_tree import read_unless_large
from understudy.mutants.generate import runs_the_same
from understudy.mutants.python_declarations import differs_in_annotations, unused_names

_READS_ANNOTATIONS = re.compile(
    rb"__annotations__|get_type_hints|get_annotations|\bsignature\(|getfullargspec|"
    rb"^\s*(?:import|from)\s+(?:attrs?|beartype|cattrs?|cyclopts|dependency_injector|fastapi|injector|"
    rb"jsonargparse|litestar|msgspec|ninja|plac|pydantic|sqlmodel|strawberry|typeguard|typer|tyro)\b",
    re.MULTILINE,
)
_READS_DOCSTRINGS = re.compile(
    rb"\bgetdoc\(|^\s*(?:import|from)\s+(?:docopt|docopt_ng|docopt_subcommands|ply|plyplus|spark_parser|sly)\b",
    re.MULTILINE,
)


class ComparedTexts:
    """The files of the base and of the result."""

    def __init__(self, trial: ResultToJudge) -> None:
        """Read nothing yet."""
        self._trial = trial

    def read_base(self, path: str) -> bytes | None:
        """Return a file of the base; None if there is none, or it is too large to look at."""
        return read_unless_large(self._trial.tree, self._trial.base, path)

    def read_result(self, path: str) -> bytes | None:
        """Return a file of the result, as ``read_base``."""
        return read_unless_large(self._trial.tree, self._trial.head, path)

    def is_in_inline_tests(self, place: Place) -> bool:
        """Return whether a place has only lines of tests beside the code; the base's tests are restored there, too."""
        if place.whole or not place.path.endswith(".rs"):
            return False
        before, after = self.read_base(place.source or place.path) or b"", self.read_result(place.path) or b""
        return all(
            restored_parts.has_only_tests(place.path, source, lines)
            for source, lines in ((before, place.removed), (after, place.lines))
        )

    def is_moved_test(self, place: Place) -> bool:
        """Return whether a place is a test file under another name, with the same content; its tests must still run."""
        patterns = self._trial.test_patterns
        if place.source is None or not deciding_files.is_test_file(place.source, patterns):
            return False
        content = self.read_result(place.path)
        return (
            deciding_files.is_test_file(place.path, patterns)
            and content is not None
            and content == self.read_base(place.source)
        )

    def run_the_same(self, places: Sequence[Place]) -> bool:
        """Return whether a file does the same without some of its places, all of them together."""
        first = places[0]
        if first.source is not None:
            return False
        after = self.read_result(first.path)
        if first.whole:
            before = self.read_base(first.path)
            if before is None and ("A", first.path) not in self._trial.changes:
                return False  # it is too large to look at
            # Equal or unreadable versions of a file that changed: its mode, its type, or a file too large to look at.
            return before != after and self._equal(first.path, before, after)
        before = undone(places, self.read_base, self.read_result)[first.path]
        if before == after:
            return False
        if self._equal(first.path, before, after):
            return True
        if not first.path.endswith(".py") or before is None or after is None:
            return False
        if differs_in_annotations(before, after) and not self.annotations_are_read:
            return True
        names = unused_names(before, after)
        return names is not None and not self._are_imported_from(first.path, names)

    def _are_imported_from(self, path: str, names: Iterable[str]) -> bool:
        """Return whether Python code of the project takes some names, or all, from the file at ``path``."""
        module = re.escape(PurePosixPath(path.removesuffix("/__init__.py")).stem.encode())
        texts = b"\n".join(self._python_code)
        imported = re.findall(rb"\bfrom\s+[\w.]*(?<!\w)%b\s+import\s*(\([^)]*\)|[^\n]*)" % module, texts)
        imported += re.findall(rb"\bfrom\s+\.+\s+import\s*(\([^)]*\)|[^\n]*)", texts)
        imported += re.findall(rb"\b%b\.(\w+)" % module, texts)
        words = re.findall(rb"\w+|\*", b"\n".join(imported))
        return b"*" in words or any(name.encode() in words for name in names)

    def _equal(self, path: str, before: bytes | None, after: bytes | None) -> bool:
        return runs_the_same(path, before, after, docstrings_run=path.endswith(".py") and self.docstrings_are_read)

    @functools.cached_property
    def annotations_are_read(self) -> bool:
        """Whether something in the project, or a library that it uses for that, looks at annotations."""
        return any(map(_READS_ANNOTATIONS.search, self._python_code))

    @functools.cached_property
    def docstrings_are_read(self) -> bool:
        """Whether the project uses a library for which docstrings are a grammar, or asks for them itself."""
        return any(map(_READS_DOCSTRINGS.search, self._python_code))

    @functools.cached_property
    def _python_code(self) -> Sequence[bytes]:
        trial = self._trial
        paths = [path for path in trial.tree.paths(trial.head) if path.endswith(".py")]
        return list(trial.tree.read_many(trial.head, paths).values())

    def adds_nothing(self, place: Place) -> bool:
        """Return whether all lines that a place has in the result do nothing by themselves, such as a comment."""
        if place.whole:
            return True
        added = replace(place, old=(place.old[0], place.old[0]))
        without = undone([added], self.read_base, self.read_result)[place.path]
        return self._equal(place.path, without, self.read_result(place.path))
