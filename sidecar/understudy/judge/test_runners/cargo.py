"""``cargo test``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from understudy.judge.outcomes.observations import Counts
from understudy.judge.project.command_lines import Read, program_of
from understudy.judge.test_runners.shared.test_runner import (
    NewTests,
    NewTestsCheck,
    ProposedCheck,
    TestRunner,
    file_shows,
    task_of,
)

_LINE = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
_FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.MULTILINE)
_TARGET = re.compile(r"^\s*(?:Running|Doc-tests) (.+?)(?: \(.*\))?$", re.MULTILINE)
_TOTAL = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
_ARGV = ["cargo", "test", "--color", "never"]


def _test_files(paths: Sequence[str], _: Read) -> list[str]:
    return [path for path in paths if path.endswith(".rs") and path.startswith("tests/") and path.count("/") == 1]


def _check_new(new: NewTests) -> NewTestsCheck | str | None:
    separate = _test_files(new.changed, new.read)
    inline = [path for path in new.changed if path.endswith(".rs") and b"#[cfg(test)]" in (new.read(path) or b"")]
    if not (separate or inline) or new.read("Cargo.toml") is None:
        return None
    if shutil.which("cargo") is None:
        return "The new Rust tests were not run: the program cargo is not installed."
    targets = [argument for path in separate for argument in ("--test", PurePosixPath(path).stem)]
    return NewTestsCheck(argv=[*_ARGV, *(targets if not inline else ())], tests=[*separate, *inline])


def cargo_counts(output: str) -> Counts | None:
    """Return the sum of the ``test result:`` lines of ``cargo test``; None if there is none (the build failed)."""
    results = _TOTAL.findall(output)
    if not results:
        return None
    passed, failed, skipped = (sum(int(result[index]) for result in results) for index in range(3))
    return Counts(passed=passed, failed=failed, skipped=skipped)


def _printed(text: str) -> Iterator[tuple[str, str]]:
    if "test result:" not in text:
        return
    targets = [(match.start(), match.group(1)) for match in _TARGET.finditer(text)]
    for match in _LINE.finditer(text):
        target = next((name for start, name in reversed(targets) if start < match.start()), "")
        yield f"{target} {match.group(1)}".strip(), match.group(2)


def _totals(text: str) -> Iterator[tuple[str, int]]:
    if (counts := cargo_counts(text)) is not None:
        yield from (("passed", counts.passed), ("failed", counts.failed), ("skipped", counts.skipped))


RUNNER = TestRunner(
    name="cargo",
    order=70,
    proposals=(ProposedCheck("cargo", "cargo test", ("cargo", "test"), file_shows("Cargo.toml"), instead_of=["make"]),),
    command_lines=(task_of("cargo", "nextest"),),
    starts=lambda argv, _: program_of(argv[0]) == "cargo" and any(word in {"test", "t"} for word in argv[1:3]),
    language="Rust",
    test_files=_test_files,
    check_new=_check_new,
    caches={"CARGO_TARGET_DIR": "cargo"},
    whole_suite=lambda _: [*_ARGV, "--no-fail-fast"],
    counts=lambda output: cargo_counts(output.text),
    failed=lambda output: _FAILED.findall(output.text),
    printed=_printed,
    totals=_totals,
    unbuilt=("error: could not compile", r"error\[E\d{4}\]"),
    died=("(signal: ",),
    mutants="understudy.judge.mutant_runners.cargo_mutants:CargoMutants",
    tests=("test.rs", "tests.rs", "*_test.rs", "*_tests.rs"),
    configuration=(
        *("Cargo.toml", "build.rs", ".cargo/", "rust-toolchain", "rust-toolchain.toml", "nextest.toml", "clippy.toml"),
        *(".clippy.toml", "rustfmt.toml", ".rustfmt.toml"),
    ),
    kept_sections={
        "Cargo.toml": (
            *("package", "!package.build", "!package.autotests", "!package.autobenches", "dependencies"),
            *("dev-dependencies", "build-dependencies", "features", "lib", "!lib.test", "!lib.doctest", "!lib.harness"),
            *("bin", "target", "badges", "workspace.dependencies", "workspace.members", "workspace.package"),
        )
    },
    dependencies={
        "Cargo.toml": ("package", "dependencies", "dev-dependencies", "build-dependencies", "target", "workspace")
    },
    locks={"Cargo.lock": "Cargo.toml"},
    completes=("Cargo.lock",),
)
