"""Write the tests of one file: search, choose, confirm, write, run."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.judge.project.missing_modules import why_no_tests, why_not_imported
from understudy.mutants.generate import Mutant, mutants_of

from .choose_examples import Found, Property, choose, choose_properties, merged, shows_something
from .confined_runs import ConfinedRuns, Stop
from .documented import calls_in_tests, documented_examples, names_to_import, nothing_to_test
from .project_layout import ImportPath, choose_name, find_sources, formatters, import_mode, style_of
from .test_file import Style, TestFunction, write

SEARCH_SECONDS = 45.0
START_SECONDS = 20.0
"""For the imports of the project, in addition."""
CONFIRM_SECONDS = 30.0
PYTEST_SECONDS = 120.0
MOST_MUTANTS = 1500
MOST_FINDINGS = 6
MOST_REASONS = 8
"""How many different reasons why functions have no test a summary names."""
ADVICE = (
    "What helps: examples in docstrings (`>>>`), which are tried first, or a delegator with a model, which can read "
    "the code."
)
ADVICE_WITH_EXAMPLES = (
    "What helps: examples that show exact values, or a delegator with a model, which can read the code."
)
JOBS = 2
DAY = 86400
CONFIRMATIONS = (
    {"shift": 0, "reverse": False, "environment": {"PYTHONHASHSEED": "1", "TZ": "UTC"}},
    {"shift": 517 * DAY + 25_000, "reverse": True, "environment": {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo"}},
    {"shift": -302 * DAY - 40_000, "reverse": False, "environment": {"PYTHONHASHSEED": "3", "TZ": "America/Lima"}},
)
"""Fresh processes: seconds to move the clock, the order, the environment."""

Emit = Callable[..., None]


@dataclass
class Report:
    """What happened to one module."""

    module: str
    kept: list[TestFunction] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    unsteady: int = 0
    not_run: bool = False
    """Pytest did not run the tests that were written."""
    notes: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    """The public functions and classes that were called."""
    nothing: str = ""
    """Why there is nothing to test, as a sentence."""
    findings: list[str] = field(default_factory=list)
    """Calls that crash, as sentences without a full stop."""
    documented: int = 0
    """How many examples the documentation has."""
    untrue: dict[str, list[str]] = field(default_factory=dict)
    """Why examples of the documentation cannot be tests → these examples."""

    def text(self, target: PurePosixPath | None) -> str:
        """Return a summary."""
        told = []
        if target is None:
            told.append(f"No useful test of {self.module} was found; nothing was changed.")
            told += [self.nothing] if self.nothing else []
        else:
            lines = sum(len(test.examples) for test in self.kept)
            properties = sum(bool(test.decorators) for test in self.kept)
            of_properties = f" and {properties} propert{'y' if properties == 1 else 'ies'}" if properties else ""
            names = ", ".join(test.name for test in self.kept)
            # How many small changes they notice is for the judge to find out: a card shows one figure.
            told.append(
                f"{target}: {_count(lines, 'example')}{of_properties} in {_count(len(self.kept), 'test')} ({names})."
            )
        told += self.notes
        if self.findings:
            told.append(
                f"Crashes that the documentation does not announce: {'; '.join(self.findings[:MOST_FINDINGS])}."
            )
        kept = [example for test in self.kept for example in test.examples]
        tested = " ".join(text for example in kept for text in [example.expression, *example.setup])
        shown = {example.unit for example in kept}
        left_out = {
            name: why
            for name, why in self.left_out.items()
            if name not in shown and not re.search(rf"\b{name}\b", tested)
        }
        late = [name for name, why in self.left_out.items() if "time" in why]
        if late:
            told.append(f"The time was not enough for a full search of {', '.join(late)}.")
        reasons: dict[str, list[str]] = {}
        for name, why in left_out.items():
            if name not in late:
                reasons.setdefault(why, []).append(name)
        if target is None:
            unexplained = [name for name in self.units if name not in self.left_out]
            why = "pytest did not run its examples" if self.not_run else "its examples did not hold again"
            reasons |= {why: unexplained} if unexplained else {}
        if reasons:
            parts = [f"{', '.join(names)} ({why})" for why, names in reasons.items()]
            more = [f"and {len(parts) - MOST_REASONS} more reasons"] if len(parts) > MOST_REASONS else []
            told.append(f"Without a test: {'; '.join([*parts[:MOST_REASONS], *more])}.")
        if self.unsteady:
            dropped = f"{_count(self.unsteady, 'example')} {'was' if self.unsteady == 1 else 'were'} dropped"
            told.append(f"{dropped}: not the same in other processes or at other dates.")
        if self.untrue:
            told.append(self._untrue_examples())
        if target is None and not self.nothing:
            told.append(ADVICE_WITH_EXAMPLES if self.documented else ADVICE)
        return " ".join(told)

    def _untrue_examples(self) -> str:
        """Return how many examples of the documentation cannot be tests, and why."""
        count = sum(map(len, self.untrue.values()))
        usual = sorted(self.untrue.items(), key=lambda item: -len(item[1]))
        parts = [
            f"`{examples[0]}` {why}" + (f" ({len(examples)} examples)" if len(examples) > 1 else "")
            for why, examples in usual[:MOST_FINDINGS]
        ]
        more = [f"and {len(usual) - MOST_FINDINGS} more reasons"] if len(usual) > MOST_FINDINGS else []
        kind = "a test" if count == 1 else "tests"
        examples = _count(self.documented, "documented example")
        return f"Of {examples}, {count} cannot be {kind}: {'; '.join([*parts, *more])}."


class ModuleTests:
    """The work on one file."""

    checkout: Path | None = None
    """The user's folder of the project; None: ``root``."""

    def __init__(self, root: Path, path: PurePosixPath, confinement: ConfinedRuns, emit: Emit, seconds: float) -> None:
        """Find the module's name; kinds: ``bad_request``, ``environment``."""
        self.root = root
        self.path = path
        self.confinement = confinement
        self.emit = emit
        self.seconds = seconds
        self.sources, self.module = find_sources(root, path)
        self.content = (root / path).read_bytes()
        self.report = Report(self.module)
        self.own: frozenset[str] = frozenset()
        self.provided: dict[str, str] = {}
        """The names that the project adds to the namespace of examples, with the imports for them."""
        self.imports: dict[str, str] = {}
        """How to import the other names that examples of the documentation see."""
        self.added_path = ""
        """The folder that the test file must put on its import path itself, relative to its own."""
        self.properties: list[Property] = []

    def run(self, *, hypothesis: bool) -> tuple[PurePosixPath | None, Report]:
        """Write the tests; return the new file, or None when no test is worth keeping."""
        self.emit("phase", text=f"Reading {self.module}")
        target = choose_name(self.root, self.path, self.module)
        self._find_import_path(target)
        examples = self._search(hypothesis=hypothesis)
        self.emit("phase", text=f"Confirming the examples of {self.module}")
        steady = self._confirmed(examples)
        self.properties = choose_properties(self.properties, steady)
        if not self.properties and not any(shows_something(example) for example in steady):
            for example in steady:
                self.report.left_out.setdefault(example.unit, "only calls were found with which it raises")
            steady = []
        if not steady and not self.properties:
            return None, self.report
        style = style_of(self.root, target.parent)
        return self._write(target, steady, style), self.report

    def _find_import_path(self, target: PurePosixPath) -> None:
        """Let the project's pytest say what a test in ``target`` imports: finding and confirming use the same path."""
        path = ImportPath(self.confinement, self.root, self._python)
        file = os.path.realpath(self.root / self.path)
        imported = path.of_tests(target, self.module)
        if imported is None:
            missing = why_no_tests(self.root, path.printed, self.confinement.python, checkout=self.checkout)
            if missing is not None:
                raise Stop("environment", f"The tests of this project cannot run: {missing[0]}.", *missing[1:])
        if imported is not None and (imported[1] is None or os.path.realpath(imported[1]) != file):
            # A test cannot import the module yet, such as one directly in `src/`: its file must add the folder itself.
            added = path.of_tests(target, self.module, str(self.sources))
            if added is not None and added[1] is not None and os.path.realpath(added[1]) == file:
                imported = added
                self.added_path = PurePosixPath(os.path.relpath(self.sources, (self.root / target).parent)).as_posix()
        self.confinement.import_path = imported[0] if imported is not None else [str(self.sources), str(self.root)]
        self.provided = path.provided_names(self.path)

    def _search(self, *, hypothesis: bool) -> list[Found]:
        text = self.content.decode("utf-8", "replace")
        mutants = _sampled(mutants_of(self.path.as_posix(), self.content))
        documented = documented_examples(self.root, text, self.module)
        self.report.documented = len(documented)
        request = {
            "module": self.module,
            "file": str(self.root / self.path),
            "root": str(self.root),
            "mutants": [
                [m.start, m.end, base64.b64encode(m.text).decode(), m.function, m.first_line, m.last_line]
                for m in mutants
            ],
            "documented": [asdict(example) for example in documented],
            "provided": list(self.provided.values()),
            "calls": calls_in_tests(self.root, text, self.module),
            "hypothesis": hypothesis,
            "confined": self.confinement.namespaces,
            "seconds": self.seconds,
            "jobs": JOBS,
        }
        self.emit("tool_call", callId="search", name="search", title=f"Look for examples of {self.module}", input={})
        before = _state(self.root)
        examples: list[Found] = []
        ended = False
        for answer in self.confinement.ask("search", request, seconds=self.seconds + START_SECONDS):
            ended = self._heard(answer, examples) or ended
        if not self.confinement.namespaces and _state(self.root) != before:
            raise Stop(
                "path_escape",
                f"Code of {self.module} wrote to the worktree while it was called with invented arguments.",
                "Its examples are not used. Write these tests by hand, or enable user namespaces.",
            )
        if not ended:
            self.report.notes.append("The search did not end in time.")
        output = f"{len(examples)} examples found for {len(mutants)} mutants."
        self.emit("tool_result", callId="search", ok=ended, output=output)
        return merged(examples)

    def _heard(self, answer: dict[str, Any], examples: list[Found]) -> bool:
        match answer["type"]:
            case "import_failed":
                why, hint, remedy = why_not_imported(
                    self.root, str(answer["reason"]), self.confinement.python, checkout=self.checkout
                )
                raise Stop(
                    "environment" if hint else "bad_request",
                    f"The module {self.module} cannot be imported: {why.rstrip('.')}.",
                    hint or f"See the whole error in a terminal: {self.confinement.python} -c 'import {self.module}'",
                    remedy,
                )
            case "imported_elsewhere":
                raise Stop(
                    "bad_request",
                    f"Importing {self.module} loads {answer['file']} instead of {self.path}.",
                    "Rename the module, or remove the file that shadows it.",
                )
            case "unconfined":
                self.report.notes.append(
                    f"{self.module} imports {', '.join(answer['imports'])} and was left alone, because this machine "
                    f"has no namespaces to confine it ({self.confinement.reason})."
                )
                return True
            case "module":
                self.own = frozenset(answer["own"])
                self.report.units = list(answer["units"])
                others = {str(name) for name in answer["names"]} - self.own
                is_package = self.path.stem == "__init__"
                text = self.content.decode("utf-8", "replace")
                self.imports = names_to_import(text, self.module, is_package=is_package, names=others) | self.provided
                if not answer["units"] and not self.report.left_out:
                    self.report.nothing = nothing_to_test(self.root, self.path, self.sources)
            case "example":
                examples.append(Found.decode(answer))
            case "property":
                self.properties.append(Property.decode(answer))
            case "documented":
                self.report.untrue.setdefault(str(answer["why"]), []).append(str(answer["example"]))
            case "finding":
                self.report.findings.append(f"`{answer['call']}` raises {answer['raises']}")
            case "left_out":
                self.report.left_out[str(answer["unit"]) or "its own examples"] = str(answer["why"])
            case "end":
                return True
        return False

    def _confirmed(self, examples: list[Found]) -> list[Found]:
        """Return the examples that are worth keeping and hold in fresh processes."""
        good = examples
        chosen: list[Found] = []
        for _ in range(3):  # an example that does not hold may be replaced by others
            chosen = choose(good)
            bad = self._bad(chosen)
            if not bad:
                return chosen
            self.report.unsteady += len(bad)
            keys = {chosen[number].key for number in bad}
            good = [example for example in good if example.key not in keys]
        bad = self._bad(chosen)
        return [example for number, example in enumerate(chosen) if number not in bad]

    def _bad(self, examples: list[Found]) -> set[int]:
        bad: set[int] = set()
        for confirmation in CONFIRMATIONS if examples else ():
            request = {
                "module": self.module,
                "root": str(self.root),
                "own": sorted(self.own),
                "provided": list(self.provided.values()),
                "examples": [
                    {"setup": e.setup, "expression": e.expression, "outcome": e.outcome, "origin": e.origin}
                    for e in examples
                ],
                "shift": confirmation["shift"],
                "reverse": confirmation["reverse"],
            }
            environment: dict[str, str] = confirmation["environment"]  # type: ignore[assignment]
            answers = list(self.confinement.ask("confirm", request, seconds=CONFIRM_SECONDS, **environment))
            if request["shift"] and not (answers and isinstance(answers[0].get("bad"), list)):
                # Some code cannot run with a moved clock, but its time zone matters all the same.
                request["shift"] = 0
                answers = list(self.confinement.ask("confirm", request, seconds=CONFIRM_SECONDS, **environment))
            if not answers:
                return set(range(len(examples)))
            if isinstance(answers[0].get("bad"), list):
                bad.update(answers[0]["bad"])  # type: ignore[arg-type]
            elif not confirmation["shift"]:
                return set(range(len(examples)))
        return bad

    def _write(self, target: PurePosixPath, examples: list[Found], style: Style) -> PurePosixPath | None:
        """Write the file and run it, without the tests that fail; remove it when none is left."""
        place = self.root / target
        made = [parent for parent in place.parents if not parent.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = False
        try:
            for number in (1, 2, 3):
                text, tests = write(
                    self.module, self.own, examples, style, self.properties,
                    imports=self.imports, sources=self.added_path,
                )  # fmt: skip
                if not tests:
                    break
                place.write_text(text, "utf-8")
                for formatter in formatters(self.root):
                    self._python("-m", *formatter, str(place), seconds=30)
                failing = self._failing(target, tests, number)
                if failing is None:
                    break
                if not failing:
                    self.report.kept = tests
                    if self.added_path:
                        added = self.sources.relative_to(self.root).as_posix()
                        self.report.notes.append(
                            f"A test cannot import {self.module} by itself, so the file adds `{added}` to the import "
                            f'path; `pythonpath = ["{added}"]` in the configuration of pytest makes that unnecessary.'
                        )
                    kept = True
                    break
                self.report.notes.append(f"Dropped because they fail under pytest: {', '.join(sorted(failing))}.")
                for example in (example for test in tests if test.name in failing for example in test.examples):
                    self.report.left_out.setdefault(example.unit, "its tests fail under pytest")
                examples = [example for test in tests if test.name not in failing for example in test.examples]
                self.properties = [tested for tested in self.properties if f"test_{tested.name}" not in failing]
        finally:
            if not kept:
                place.unlink(missing_ok=True)
                for folder in made:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
        return target if kept else None

    def _failing(self, target: PurePosixPath, tests: list[TestFunction], number: int) -> set[str] | None:
        """Run the file twice; return the names of tests that do not pass, None when pytest reports nothing."""
        failing: set[str] = set()
        for seed, zone in (("1", "UTC"), ("4", "Pacific/Auckland")):
            call = f"pytest-{number}-{seed}"
            self.emit("tool_call", callId=call, name="pytest", title=f"pytest {target}", input={})
            outcomes, summary = self._pytest(target, seed, zone)
            if not outcomes.keys() & {test.name for test in tests}:  # the file could not be loaded
                outcomes = {}
            bad = {test.name for test in tests if outcomes.get(test.name) != "passed"}
            failing |= bad
            output = summary if not outcomes else f"{len(tests) - len(bad)} of {len(tests)} tests pass"
            self.emit("tool_result", callId=call, ok=not bad, output=output)
            if not outcomes:
                self.report.not_run = True
                self.report.notes.append(f"pytest did not run the tests: {summary}")
                return None
        return failing

    def _pytest(self, target: PurePosixPath, seed: str, zone: str) -> tuple[dict[str, str], str]:
        report = self.confinement.top / "report.xml"
        report.unlink(missing_ok=True)
        printed = self._python(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist",
            "--no-header", "--tb=line",
            "-o", "addopts=", *import_mode(self.root), f"--junitxml={report}", str(target),
            seconds=PYTEST_SECONDS, PYTHONHASHSEED=seed, TZ=zone,
        )  # fmt: skip
        outcomes: dict[str, str] = {}
        with contextlib.suppress(OSError, ET.ParseError):
            for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by pytest a moment ago
                outcomes[case.get("name", "")] = "failed" if len(case) else "passed"
        lines = [line.strip() for line in (printed or "").splitlines() if line.strip()]
        return outcomes, lines[-1][:300] if lines else "it did not end in time."

    def _python(self, *arguments: str, seconds: float, **environment: str) -> str | None:
        """Run the project's Python in the worktree and return what it printed; None when it took too long."""
        return self.confinement.run_python(*arguments, seconds=seconds, **environment)


def _sampled(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants to kill: those in functions first, because a module may be full of tables."""
    numbers = random.Random(11)  # noqa: S311 - a sample
    shuffled = numbers.sample(mutants, len(mutants))
    return sorted(
        sorted(shuffled, key=lambda mutant: not mutant.function)[:MOST_MUTANTS], key=lambda mutant: mutant.start
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _state(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and change time of every file of the worktree."""
    states = {}
    until = time.monotonic() + 10
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)  # noqa: PTH118 - faster, and there may be many
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                states[path] = (status.st_ino, status.st_size, status.st_ctime_ns)
        if time.monotonic() > until:
            break
    return states
