"""Small projects with a real environment, and a tree that is a plain folder."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from file_differences import file_difference
from project_python import PYTEST, link_packages, make_environment

from understudy.judge.judge import Judgement, JudgeRequest, judge
from understudy.judge.verdict_rules import VerdictFacts, verdict_of
from understudy.model.config.delegators import AppliesTo, Recipe, Scope
from understudy.model.delegation.events import Event
from understudy.model.evidence.checks import Check, Evidence
from understudy.model.hunks import FileDiff
from understudy.model.verdicts import Reservation, Verdict

Files = dict[str, str | bytes]
TEST_GLOBS = ["test_*.py", "*_test.py", "tests/", "*.test.*", "*.spec.*", "__tests__/"]


class FolderTree:
    """A tree whose commits are dictionaries; everything that is not in the commit goes, whatever it is called."""

    def __init__(self, path: Path, keep: tuple[str, ...] = ()) -> None:
        self.path = path
        self.commits: dict[str, dict[str, bytes]] = {}
        self.made: list[str] = []
        self._keep = keep

    def commit(self, name: str, files: Files) -> None:
        self.commits[name] = {
            path: content.encode() if isinstance(content, str) else content for path, content in files.items()
        }

    def materialise(self, commit: str) -> None:
        self.made.append(commit)
        self.path.mkdir(parents=True, exist_ok=True)
        for entry in self.path.iterdir():
            if entry.name in (*self._keep, *self.linked):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        for name, content in self.commits[commit].items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o755 if name in self.executable else 0o644)

    executable: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    """What is kept, and is a link to the same path of the checkout."""

    def now(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.path)): file.read_bytes()
            for file in self.path.rglob("*")
            if file.is_file() and file.relative_to(self.path).parts[0] not in self._keep
        }

    def differing(self, commit: str) -> list[str]:
        now = self.now()
        return [path for path, content in self.commits[commit].items() if now.get(path) != content]

    def tree_of(self, commit: str) -> str:
        return hashlib.sha256(repr(sorted(self.commits[commit].items())).encode()).hexdigest()[:40]

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str]]:
        old, new = self.commits[base], self.commits[head]
        changes = [("D", path) for path in old.keys() - new.keys()]
        changes += [("A", path) for path in new.keys() - old.keys()]
        changes += [("M", path) for path in old.keys() & new.keys() if old[path] != new[path]]
        return sorted(changes, key=lambda change: change[1])

    def file_diffs(self, base: str, head: str) -> list[FileDiff]:
        old, new = self.commits[base], self.commits[head]
        changes = self.changed_paths(base, head)
        gone = {old[path]: path for letter, path in changes if letter == "D"}
        moved = {path: gone[new[path]] for path in new.keys() - old.keys() if new[path] in gone}
        return [
            file_difference(path, old.get(moved.get(path, path)), new.get(path), source=moved.get(path))
            for _, path in changes
            if path not in moved.values()
        ]

    def read(self, commit: str, path: str) -> bytes | None:
        return self.commits[commit].get(path)

    def read_many(self, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        return {path: self.commits[commit][path] for path in paths if path in self.commits[commit]}

    def paths(self, commit: str) -> list[str]:
        return list(self.commits[commit])

    def compose(self, head: str, base: str, files: Mapping[str, bytes | None]) -> str:
        mixed = dict(self.commits[head])
        for path, content in files.items():
            mixed.pop(path, None)
            wanted = self.commits[base].get(path) if content is None else content
            if wanted is not None:
                mixed[path] = wanted
        if mixed == self.commits[head]:
            return head
        name = f"restored: {', '.join(sorted(files))}"
        self.commits[name] = mixed
        return name


class Judged:
    """The result of judging and its verdict."""

    def __init__(self, judgement: Judgement, events: list[Event], tree: FolderTree) -> None:
        self.results = judgement.results
        self.reservations = judgement.reservations
        self.places = judgement.places
        self.facts = judgement.facts
        self.events = events
        facts = VerdictFacts(
            changed=tree.tree_of("base") != tree.tree_of("head"),
            results=tuple(judgement.results),
            reservations=frozenset(judgement.reservations),
        )
        self.verdict, self.said = verdict_of(facts)

    @property
    def notes(self) -> str:
        return "\n".join(event.text for event in self.events if hasattr(event, "text"))

    @property
    def only(self) -> Any:
        assert len(self.results) == 1, self.results
        return self.results[0]

    def is_(self, verdict: Verdict, *reservations: Reservation) -> bool:
        assert (self.verdict, self.said) == (verdict, list(reservations)), (self.notes, self.results)
        return True

    def asks(self, question: Reservation) -> bool:
        """Check that of all questions about changed tests and configuration, only this one is asked."""
        questions = {Reservation.TESTS_CHANGED, Reservation.CHECK_CHANGED, Reservation.BASE_TESTS_DO_NOT_BUILD}
        assert self.verdict is Verdict.UNVERIFIED, (self.notes, self.results)
        assert questions & set(self.said) == {question}, (self.said, self.notes, self.results)
        return True


class Project:
    """A user's checkout, its environment, and the tree an agent worked in."""

    def __init__(self, root: Path) -> None:
        self.checkout = root / "user" / "project"
        self.checkout.mkdir(parents=True)
        self.tree = FolderTree(root / "trees" / "1")
        self.scratch = root / "scratch"
        self.base: Files = {}
        self.events: list[Event] = []
        """What was emitted since the last judging began."""
        self.libraries: Path | None = None

    def has(self, files: Files) -> Project:
        """Let the checkout and the base hold these files."""
        self.base.update(files)
        for name, content in files.items():
            file = self.checkout / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def environment(self, *packages: str, at: str = ".venv") -> Path:
        self.libraries = make_environment(self.checkout / at, packages or PYTEST)
        return self.libraries

    async def judge(
        self,
        result: dict[str, str | bytes | None],
        *,
        recipe: str = "tests",
        writes: list[str] | None = None,
        files: tuple[str, ...] = ("calc.py",),
        checks: tuple[Check, ...] = (),
        fallback_checks: tuple[Check, ...] = (),
        interpreter: str | None = None,
        reports: Path | None = None,
        evidence: Evidence | None = None,
    ) -> Judged:
        """Judge the base with ``result`` over it (``None`` deletes)."""
        self.tree.commit("base", self.base)
        head = {**self.base, **result}
        self.tree.commit("head", {path: content for path, content in head.items() if content is not None})
        if self.libraries is None:
            self.environment()
        if recipe == "tests" and writes is None:
            writes = TEST_GLOBS
        self.events = events = []
        request = JudgeRequest(
            delegation_id="20261121-004512-tests",
            recipe=Recipe(
                name=recipe,
                title="",
                returns="tree",
                writes=writes,
                applies_to=AppliesTo(on=["file"]),
                judged_by={"tests": "new_tests", "fix": "failing_test"}.get(recipe, "checks"),
                scope=Scope.BUILTIN,
            ),
            tree=self.tree,
            base="base",
            head="head",
            workspace=self.checkout,
            files=files,
            checks=checks,
            fallback_checks=fallback_checks,
            interpreter=interpreter,
            scratch=self.scratch,
            linked=[self.checkout / name for name in self.tree.linked],
            reports=reports,
            evidence=evidence or Evidence(),
        )
        judgement = await judge(request, events.append)
        assert self.tree.now() == self.tree.commits["head"], "the tree is exactly the result again"
        assert list(self.scratch.iterdir()) == []
        return Judged(judgement, events, self.tree)


@pytest.fixture
def cargo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cargo with the toolchain of this machine, although the home is another."""
    program = shutil.which("cargo")
    if program is None:
        pytest.skip("no cargo here")
    home = Path(program).parent.parent
    monkeypatch.setenv("CARGO_HOME", str(home))
    monkeypatch.setenv("RUSTUP_HOME", str(home.parent / ".rustup"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with `calc.py` in a flat layout."""
    return Project(tmp_path).has({"calc.py": "def add(a, b):\n    return a + b\n"})


@pytest.fixture
def empty_project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def package_linker() -> Callable[[Path, tuple[str, ...]], None]:
    return link_packages
