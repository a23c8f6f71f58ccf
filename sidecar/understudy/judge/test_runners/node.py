"""The test runner of Node.js, other runners that start in Node.js, and the scripts of a package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from understudy.judge.project.command_lines import program_of
from understudy.judge.project.installed_packages import installs_nothing
from understudy.judge.test_runners.shared.node_packages import (
    MANAGERS,
    STARTERS,
    package_with,
    script_tests,
    started_program,
)
from understudy.judge.test_runners.shared.test_runner import (
    NewTests,
    Project,
    ProposedCheck,
    ScriptCommand,
    TestRunner,
    program_named,
    task_of,
)

_PROGRAMS = MANAGERS | STARTERS | {"node", "mocha", "ava", "tap", "tape", "jasmine"}
"""Programs whose tests run in Node.js."""
_NO_TESTS = "no test specified"
"""In the script ``test`` that ``npm init`` writes."""
_TAP = re.compile(r"^( *)(not )?ok \d+(?: - (.*?))?(?: # (SKIP|TODO)\b.*)?$", re.MULTILINE | re.IGNORECASE)
_TAP_START = re.compile(r"^TAP version \d+|^# Subtest:|^1\.\.\d+", re.MULTILINE)
_LINE = re.compile(r"^( *)(✔|✖|﹣) (.+?)(?: \([\d.]+ms\))?(?: # (SKIP|TODO).*)?$", re.MULTILINE)
_TOTAL = re.compile(r"^(?:\N{INFORMATION SOURCE}|#) (pass|fail|cancelled|skipped|todo) (\d+)$", re.MULTILINE)
_SCRIPT_SUFFIXES = ("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts")


def _test_script(*locks: str, others: Sequence[str] = ()) -> Callable[[Project], str | None]:
    """Find a script ``test``, with one of these lock files, or, without ``locks``, with none of ``others``."""

    def shown(project: Project) -> str | None:
        scripts = project.package().get("scripts")
        script = scripts.get("test") if isinstance(scripts, dict) else None
        if not isinstance(script, str) or not script.strip() or _NO_TESTS in script:
            return None
        fits = project.first(*locks) if locks else not project.first(*others)
        return "package.json" if fits else None

    return shown


def _installs_nothing(project: Project) -> bool:
    """Return whether package.json names no packages that a script may need."""
    try:
        return installs_nothing(json.loads(project.text("package.json")))
    except (ValueError, RecursionError):
        return False


def _proposed(manager: str, shown_by: Callable[[Project], str | None]) -> ProposedCheck:
    title, argv = f"{manager} test", (manager, "test")
    return ProposedCheck(manager, title, argv, shown_by, folder="node_modules", without_folder=_installs_nothing)


def _check_new(new: NewTests) -> str | None:
    """Return why no other runner can run the new tests: this one is asked last."""
    tests = script_tests(new.changed, new.read)
    if not tests or new.read("package.json") is None:
        return None
    if all(package_with(runner, tests, new) is None for runner in ("vitest", "jest")):
        return "The new JavaScript tests were not run: package.json names neither vitest nor jest."
    return "The new JavaScript tests were not run: node_modules of the worktree has neither vitest nor jest."


def _command(argv: Sequence[str], folder: Path) -> ScriptCommand | None:
    resolved = started_program(argv, folder)
    if resolved is None or program_of(resolved[0]) != "node" or "--test" not in resolved[1:]:
        return None
    return ScriptCommand(kind="node", program=resolved[0], arguments=tuple(resolved[1:]))


def _printed(text: str) -> Iterator[tuple[str, str]]:
    if _TAP_START.search(text):
        for indent, wrong, name, directive in _TAP.findall(text):
            yield f"{indent}{name}", "SKIP" if directive else "FAIL" if wrong else "PASS"
    elif _TOTAL.search(text):
        for indent, mark, name, directive in _LINE.findall(text.partition("failing tests:")[0]):
            yield f"{indent}{name}", "SKIP" if directive else mark


RUNNER = TestRunner(
    name="node",
    order=50,
    proposals=(
        _proposed("pnpm", _test_script("pnpm-lock.yaml")),
        _proposed("yarn", _test_script("yarn.lock")),
        _proposed("npm", _test_script(others=("pnpm-lock.yaml", "yarn.lock"))),
    ),
    command_lines=(program_named("mocha", "ava", "tap"), r"--test\b", task_of("npm", "pnpm", "yarn", "bun")),
    starts=lambda argv, folder: program_of(argv[0]) in _PROGRAMS or _command(argv, folder) is not None,
    language="JavaScript",
    check_new=_check_new,
    reports=False,
    printed=_printed,
    totals=lambda text: ((word, int(number)) for word, number in _TOTAL.findall(text)),
    unbuilt=("Cannot find module", "ERR_MODULE_NOT_FOUND", "does not provide an export named"),
    mutants="understudy.judge.mutant_runners.script_mutants:ScriptMutants",
    script=_command,
    plain_loader="",
    tests=(
        *(f"*.{word}.{suffix}" for word in ("test", "spec", "cy", "e2e") for suffix in _SCRIPT_SUFFIXES),
        *(f"{name}.{suffix}" for name in ("test", "test-*", "*-test", "*_test") for suffix in _SCRIPT_SUFFIXES),
        "*.snap",
    ),
    configuration=(
        *("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", ".pnp.*", ".pnpmfile.*"),
        *("pnpm-workspace.yaml", "node.config.json", ".nvmrc", ".node-version", "node_modules/"),
        *(".mocharc*", "mocha.opts", ".taprc", "ava.config.*"),
    ),
    kept_sections={
        "package.json": (
            *("name", "version", "description", "keywords", "author", "contributors", "license", "homepage"),
            *("repository", "bugs", "funding", "private", "files", "main", "module", "browser", "types", "typings"),
            *("exports", "imports", "type", "bin", "man", "sideEffects", "engines", "os", "cpu", "publishConfig"),
            *("dependencies", "devDependencies", "peerDependencies", "peerDependenciesMeta", "optionalDependencies"),
            *("bundledDependencies", "bundleDependencies"),
        )
    },
    dependencies={
        "package.json": (
            *("name", "version", "dependencies", "devDependencies", "optionalDependencies", "peerDependencies"),
            *("workspaces", "overrides", "resolutions"),
        )
    },
    locks=dict.fromkeys(
        ("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"),
        "package.json",
    ),
)
