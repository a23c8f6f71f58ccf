"""Measure the tests that the ghostwriter writes for modules of real packages, with the mutants of another program.

    python scripts/measure_packages.py                       every module of MODULES: about an hour
    python scripts/measure_packages.py humanize/number.py   some of them

For each module, this script commits the sources of its package to an empty repository, runs the recipe `tests` there
with the built-in delegator, and applies the result to a copy. Cosmic Ray then mutates the module, and the new tests
run on a sample of its mutants. A mutant is killed when a test that passed fails, or when the tests take ten times as
long; it does not count when the tests cannot be collected.

The packages are pinned in requirements/packages.txt, and are installed into .venv/packages.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
REQUIREMENTS = CHECKOUT / "requirements" / "packages.txt"
CLI = (sys.executable, "-m", "understudy")
GIT = (
    "git",
    "-c",
    "user.name=Measurement",
    "-c",
    "user.email=measurement@example.invalid",
    "-c",
    "commit.gpgSign=false",
)
MODULES: dict[str, tuple[str, ...]] = {
    "inflection/__init__.py": (),
    "slugify/slugify.py": ("text_unidecode",),
    "humanize/filesize.py": (),
    "humanize/number.py": (),
    "humanize/time.py": (),
    "toolz/functoolz.py": (),
    "toolz/itertoolz.py": (),
    "boltons/setutils.py": (),
    "boltons/strutils.py": (),
    "boltons/timeutils.py": (),
    "idna/core.py": (),
    "idna/intranges.py": (),
    "parse/__init__.py": (),
    "more_itertools/recipes.py": (),
    "tabulate/__init__.py": (),
    "semver/version.py": (),
    "isodate/isodates.py": (),
    "isodate/isotime.py": (),
    "webcolors/_conversion.py": (),
    "boltons/dictutils.py": (),
    "boltons/formatutils.py": (),
    "boltons/iterutils.py": (),
    "boltons/listutils.py": (),
    "boltons/mathutils.py": (),
    "boltons/namedutils.py": (),
    "boltons/statsutils.py": (),
    "boltons/urlutils.py": (),
    "cachetools/__init__.py": (),
    "cachetools/keys.py": (),
    "humanize/lists.py": (),
    "isodate/duration.py": (),
    "isodate/isoduration.py": (),
    "isodate/isotzinfo.py": (),
    "sortedcontainers/sorteddict.py": (),
    "sortedcontainers/sortedlist.py": (),
    "sortedcontainers/sortedset.py": (),
    "toolz/dicttoolz.py": (),
    "toolz/recipes.py": (),
    "wcwidth/wcwidth.py": (),
    "webcolors/_normalization.py": (),
}
"""Modules → the other packages that they import."""
MUTANTS = 40
START_SECONDS = 600
RUN_SECONDS = 60
LONGER = 10
SLOWEST_MUTANT = 5.0
"""At least, in seconds: the machine may be busy."""
PASSED, FAILED, TOO_LONG = 0, 1, -1
TRACED = """
import json, sys
import pytest
file, report, *arguments = sys.argv[1:]
lines = set()
def local(frame, *_):
    lines.add(frame.f_lineno)
    return local
def enter(frame, *_):
    return local(frame) if frame.f_code.co_filename == file else None
sys.settrace(enter)
code = pytest.main(arguments)
sys.settrace(None)
with open(report, "w") as output:
    json.dump(sorted(lines), output)
sys.exit(code)
"""
"""Runs pytest and writes the lines of a file that it executed."""
FORKED = """
import os, resource, signal, sys
import pytest, _pytest.assertion.rewrite, _pytest.python, _pytest.junitxml
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, float(line))
        for limit, value in ((resource.RLIMIT_AS, 2 << 30), (resource.RLIMIT_FSIZE, 16 << 20)):
            resource.setrlimit(limit, (value, value))
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os._exit(pytest.main(sys.argv[1:]))
    ended = os.waitpid(child, 0)[1]
    late = os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGALRM
    print(-1 if late else os.waitstatus_to_exitcode(ended) & 255, flush=True)
"""
"""Runs pytest in a fresh process for each line of its input, which is the limit in seconds; prints the exit codes."""


@dataclasses.dataclass
class Measured:
    """The figures of one module."""

    module: str
    verdict: str = ""
    reservations: list[str] = dataclasses.field(default_factory=list)
    summary: str = ""
    lines: int = 0
    """Lines that the result adds."""
    seconds: float = 0.0
    executed: int = 0
    """Mutants of the sample on lines that the tests execute."""
    mutants: int = 0
    killed: int = 0
    problem: str = ""

    @property
    def verified(self) -> bool:
        """Whether the verdict is `verified`."""
        return self.verdict == "verified"

    def row(self) -> str:
        """Return a row of a Markdown table."""
        shares = (percent(self.killed, self.executed), percent(self.killed, self.mutants)) if self.lines else ("-", "-")
        said = ", ".join(filter(None, [self.verdict, *self.reservations, self.problem]))
        return f"| `{self.module}` | {said} | {shares[0]} | {shares[1]} | {self.lines or '-'} | {self.seconds:.0f} |"


HEADER = "| module | verdict | executed lines | whole file | lines added | seconds |\n" + "|---" * 6 + "|"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="some of the modules (default: all)")
    parser.add_argument("--mutants", type=int, default=MUTANTS, help="mutants of each module, at most")
    parser.add_argument("--jobs", type=int, default=2, help="modules to measure at the same time")
    parser.add_argument("--keep", type=Path, help="a new folder for the repositories, which stay")
    options = parser.parse_args(arguments)
    unknown = set(options.modules) - MODULES.keys()
    if unknown:
        parser.error(f"not in MODULES: {', '.join(sorted(unknown))}")
    print(HEADER, flush=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="measure-packages-") as folder:
        top = options.keep or Path(folder)
        for one in measured(top, options.modules or list(MODULES), mutants=options.mutants, jobs=options.jobs):
            print(one.row(), flush=True)
            sys.stderr.write(f"{one.module}: {one.summary or one.problem}\n")
            found.append(one)
    print("\n" + together(found))
    return 0


def measured(top: Path, modules: list[str], *, mutants: int = MUTANTS, jobs: int = 1) -> Iterator[Measured]:
    """Yield the figures of each module, in order; the repositories are in the folder ``top``."""
    sources = install()
    sys.path.append(str(sources))  # last, so that only the mutator and its parser are imported from there
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda module: measure(top / module.replace("/", "-"), sources, module, mutants), modules)


def together(found: list[Measured]) -> str:
    """Return the figures of all modules as a paragraph."""
    verified = [one for one in found if one.verified]
    executed, killed, mutants = (sum(getattr(one, name) for one in found) for name in ("executed", "killed", "mutants"))
    lowest = min((one.killed / one.executed for one in verified if one.executed), default=0.0)
    return (
        f"{len(verified)} of {len(found)} modules are verified. The tests kill {percent(killed, executed)} of "
        f"{executed} mutants on executed lines and {percent(killed, mutants)} of {mutants} in whole files, modules "
        f"without tests included. The lowest share of a verified result on executed lines is {lowest:.0%}."
    )


def percent(part: int, whole: int) -> str:
    """Return a share as text."""
    return f"{part / whole:.0%}" if whole else "-"


def install() -> Path:
    """Install the pinned packages, once; return the folder."""
    version = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = Path(sys.prefix) / "packages" / version
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix="packages-", dir=sys.prefix) as fresh:
            options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
            command = [sys.executable, "-m", "pip", "install", *options, "--no-compile", "-r", str(REQUIREMENTS)]
            subprocess.run([*command, "--target", f"{fresh}/all"], check=True, timeout=300)
            folder.parent.mkdir(exist_ok=True)
            if not folder.exists():
                Path(fresh, "all").rename(folder)
    return folder


def measure(folder: Path, sources: Path, module: str, most: int) -> Measured:
    """Delegate the tests of one module and judge them with other mutants."""
    found = Measured(module)
    project, copy = folder / "project", folder / "copy"
    make_project(project, sources, [module.split("/", 1)[0], *MODULES[module]])
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns(".git", ".understudy"))
    environment = {**os.environ, "UNDERSTUDY_STATE": str(folder / "state"), "UNDERSTUDY_CONFIG": str(folder / "config")}

    def understudy(*arguments: str, seconds: float = 60) -> bytes:
        return subprocess.run(
            [*CLI, *arguments], cwd=project, env=environment, check=False, timeout=seconds, capture_output=True
        ).stdout

    began = time.monotonic()
    said = understudy("start", "tests", module, "--trust", "--quiet", "--json", seconds=START_SECONDS)
    found.seconds = time.monotonic() - began
    listed = json.loads(understudy("list", "--limit", "1", "--json") or b"{}").get("delegations", [])
    if not listed:
        found.problem = said.decode("utf-8", "replace")[-200:]
        return found
    name = listed[0]["id"]
    (folder / "shown.json").write_bytes(understudy("show", name, "--json"))
    read_result(found, json.loads((folder / "shown.json").read_bytes()))
    patch = understudy("diff", name)
    mutants = sampled_mutants((copy / module).read_text("utf-8"), most, random.Random(module))  # noqa: S311 - a sample, the same in each run
    if not patch.strip():
        found.mutants = len(mutants)
        return found
    found.lines = sum(line.startswith(b"+") and not line.startswith(b"+++") for line in patch.splitlines())
    subprocess.run([*GIT, "apply", "-"], cwd=copy, env=without_git(copy), input=patch, check=True, timeout=60)
    judge(found, copy, mutants)
    return found


def read_result(found: Measured, shown: dict[str, Any]) -> None:
    """Take the verdict from what `show --json` prints."""
    delegation = shown.get("delegation", shown)
    found.verdict = delegation.get("verdict") or ""
    reservations = delegation.get("reservations") or []
    found.reservations = [one if isinstance(one, str) else str(one.get("kind")) for one in reservations]
    found.summary = str((delegation.get("result") or {}).get("summary") or delegation.get("error") or "")


def make_project(project: Path, sources: Path, packages: list[str]) -> None:
    """Commit packages to a new repository, and configure this virtual environment as the project's."""
    project.mkdir(parents=True)
    for package in packages:
        ignored = shutil.ignore_patterns("__pycache__", "tests", "*.so")
        shutil.copytree(sources / package, project / package, ignore=ignored)
    (project / ".gitignore").write_text(".understudy/local/\n__pycache__/\n", "utf-8")
    for step in (("init", "--quiet", "--template="), ("add", "."), ("commit", "--quiet", "--message=The package")):
        subprocess.run([*GIT, *step], cwd=project, env=without_git(), check=True, timeout=60)
    local = project / ".understudy" / "local"
    local.mkdir(parents=True)
    (local / "config.toml").write_text(f"[environment]\npython = {json.dumps(sys.executable)}\n", "utf-8")


def without_git(folder: Path | None = None) -> dict[str, str]:
    """Return the environment without variables that select a repository, and without the user's git configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ceiling = {} if folder is None else {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **ceiling}


def sampled_mutants(text: str, most: int, numbers: random.Random) -> list[tuple[int, int, str]]:
    """Return mutants of Cosmic Ray, up to ``most``: first and last changed line, and the module's text."""
    # Installed by this script.
    parso = importlib.import_module("parso")
    provider = importlib.import_module("cosmic_ray.operators.provider").OperatorProvider()
    # An operator with arguments needs names from a configuration.
    operators = [provider[name]() for name in provider if not provider[name].arguments()]
    nodes = list(walk(parso.parse(text)))
    places: dict[tuple[Any, Any], list[tuple[Any, int, int]]] = {}
    for operator in operators:
        for number, node in enumerate(nodes):
            for index, place in enumerate(operator.mutation_positions(node)):
                places.setdefault(place, []).append((operator, number, index))
    # One at each place: otherwise most of them would replace one arithmetic operator by all others.
    found = []
    for start, end in numbers.sample(list(places), min(most, len(places))):
        operator, number, index = numbers.choice(places[start, end])
        tree = parso.parse(text)
        node = next(one for at, one in enumerate(walk(tree)) if at == number)
        mutated = operator.mutate(node, index)
        if node.parent is not None and mutated is not node:
            children = node.parent.children
            place = next(at for at, one in enumerate(children) if one is node)
            children[place : place + 1] = [] if mutated is None else [mutated]
        found.append((start[0], end[0], tree.get_code()))
    return [one for one in found if one[2] != text]


def walk(node: Any) -> Iterator[Any]:
    """Yield the nodes of a tree, parents first."""
    yield node
    for child in getattr(node, "children", ()):
        yield from walk(child)


def judge(found: Measured, copy: Path, mutants: list[tuple[int, int, str]]) -> None:
    """Run the new tests on each mutant."""
    path = copy / found.module
    original = path.read_bytes()
    report = copy.parent / "executed.json"
    with started(copy, TRACED, str(path), str(report)) as traced:
        try:
            clean = traced.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            traced.kill()
            clean = TOO_LONG
    if clean != PASSED:
        found.problem = f"the tests do not pass in a copy of the project (exit code {clean})"
        return
    executed = set(json.loads(report.read_text("utf-8")))
    try:
        with started(copy, FORKED) as runs:
            began = time.monotonic()
            run(runs, RUN_SECONDS)
            limit = max(SLOWEST_MUTANT, LONGER * (time.monotonic() - began))
            for first, last, text in mutants:
                path.write_text(text, "utf-8")
                reached = not executed.isdisjoint(range(first, last + 1))
                code = run(runs, limit) if reached else PASSED  # a mutant that no test executes survives
                if code in {PASSED, FAILED, TOO_LONG}:
                    found.mutants += 1
                    found.executed += reached
                    found.killed += code != PASSED
    finally:
        path.write_bytes(original)


def run(runs: subprocess.Popen[str], seconds: float) -> int:
    """Run the tests in a fresh process; return the exit code, or ``TOO_LONG``."""
    assert runs.stdin is not None  # noqa: S101 - pipes were asked for
    assert runs.stdout is not None  # noqa: S101
    runs.stdin.write(f"{seconds}\n")
    runs.stdin.flush()
    return int(runs.stdout.readline())


def started(copy: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start one of the programs above on the tests of the copy."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(copy), "tests"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "HOME": str(copy.parent),
    }
    pipe = subprocess.PIPE if program is FORKED else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments, *options], cwd=copy, env=environment,
        stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
