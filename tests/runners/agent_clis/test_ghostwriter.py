"""Test the ghostwriter on small real projects: its tests pass, kill mutants, and are the only change."""

import ast
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from understudy.model.config.delegators import Delegator, Limits, Scope
from understudy.model.config.recipes import AppliesTo, Recipe
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.events import Event, File, Phase, ToolResult
from understudy.runners.agent_clis import ghostwriter_agent as agent
from understudy.runners.agent_clis.ghostwriter import Runner
from understudy.runners.runner import Outcome, Task

RECIPE = Recipe(name="tests", title="Tests", returns="tree", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN)


async def ghostwrite(tree: Path, *files: str, interpreter: str | None = sys.executable):
    events: list[Event] = []
    task = Task(
        delegation_id=f"ghost-{time.monotonic_ns()}",
        recipe=RECIPE,
        prompt="",
        prompt_file=tree.parent / "prompt.md",
        worktree=tree,
        delegator=Delegator(name="ghostwriter", tool="ghostwriter"),
        files=list(files),
        interpreter=interpreter,
        limits=Limits(total_seconds=120),
    )
    try:
        return await Runner().run(task, events.append), events
    except UnderstudyError as error:
        return error, events


def a_project(tmp_path: Path, **files: str) -> Path:
    tree = tmp_path / "tree"
    for name, text in files.items():
        path = tree / name.replace("__", "/")
        path = path.with_suffix(".py") if not path.suffix else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tree


def files_of(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}


def run_pytest(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{tree / 'src'}:{tree}"},
        check=False,
    )


PLAIN = """
from dataclasses import dataclass


def double(number: int) -> int:
    return number * 2


def trim(text: str) -> str:
    return text.strip()


def invert(number):
    return 1 / number


@dataclass
class Pair:
    left: int
    right: int
"""


@pytest.mark.heavy
async def test_a_flat_project(tmp_path):
    tree = a_project(tmp_path, arithmetic=PLAIN)
    outcome, events = await ghostwrite(tree, "arithmetic.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) == {"arithmetic.py", "tests/test_arithmetic_properties.py"}
    text = (tree / "tests/test_arithmetic_properties.py").read_text()
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert "test_idempotent_trim" in names
    assert "test_fuzz_double" in names
    assert "test_fuzz_Pair" not in names
    assert "pass even when arithmetic is broken on purpose: test_fuzz_Pair" in outcome.text
    assert "because they fail" in outcome.text
    assert text.count("@DETERMINISTIC") == len(names)
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        checked = subprocess.run(
            [ruff, "check", "--isolated", "--select", "E,F,I", "--line-length", "120", "-"],
            input=text,
            text=True,
            capture_output=True,
            cwd=tree,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout
        formatted = subprocess.run(
            [ruff, "format", "--isolated", "--check", "-"],
            input=text,
            text=True,
            capture_output=True,
            cwd=tree,
            check=False,
        )
        assert formatted.returncode == 0, text
    assert [event.path for event in events if isinstance(event, File)] == ["tests/test_arithmetic_properties.py"]
    assert any(isinstance(event, Phase) for event in events)
    assert any(isinstance(event, ToolResult) for event in events)
    assert run_pytest(tree).returncode == 0
    # When every function is broken, every test that was kept fails.
    (tree / "arithmetic.py").write_text(PLAIN.replace("    return ", "    raise RuntimeError\n    return "))
    broken = run_pytest(tree)
    assert f"{len(names)} failed" in broken.stdout
    assert "passed" not in broken.stdout


@pytest.mark.heavy
async def test_a_src_project_with_tests_of_its_own(tmp_path):
    habit = "def test_it():\n    assert True\n"
    tree = a_project(
        tmp_path,
        src__shop____init__="",
        src__shop__prices="def cents(amount: int) -> str:\n    return f'{amount} ct'\n",
        tests__unit__test_prices=habit,
        tests__unit__test_prices_properties=habit,
    )
    (tree / "src/shop/__init__.py").write_text("")
    before = files_of(tree)
    outcome, _ = await ghostwrite(tree, "src/shop/prices.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) - before == {"tests/unit/test_shop_prices_properties.py"}
    assert (tree / "tests/unit/test_prices_properties.py").read_text() == habit
    assert "import shop.prices" in (tree / "tests/unit/test_shop_prices_properties.py").read_text()
    assert run_pytest(tree).returncode == 0


@pytest.mark.heavy
async def test_the_copy_of_a_real_module(tmp_path):
    tree = a_project(tmp_path, paragraphs=Path(textwrap.__file__).read_text())
    outcome, _ = await ghostwrite(tree, "paragraphs.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_paragraphs_properties.py").read_text()
    assert text.count("def test_") >= 3
    assert "test_idempotent_dedent" in text


@pytest.mark.heavy
async def test_nothing_left_is_no_change(tmp_path):
    tree = a_project(tmp_path, hopeless="def never(text: str) -> str:\n    raise RuntimeError(text)\n")
    outcome, events = await ghostwrite(tree, "hopeless.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) == {"hopeless.py"}
    assert not (tree / "tests").exists()
    assert "No useful test of hopeless remained" in outcome.text
    assert "test_fuzz_never" in outcome.text
    assert not [event for event in events if isinstance(event, File)]


@pytest.mark.parametrize(
    ("files", "name", "kind"),
    [
        ({"a": "x = 1"}, "missing.py", "bad_request"),
        ({"a": "raise SystemExit(3)"}, "a.py", "bad_request"),
        ({"a": "def f(:"}, "a.py", "bad_request"),
        ({"my-script": "x = 1"}, "my-script.py", "bad_request"),
        ({"json": "x = 1"}, "../tree/json.py", "bad_request"),
    ],
)
async def test_what_cannot_be_tested_is_said(tmp_path, files, name, kind):
    tree = a_project(tmp_path, **files)
    before = files_of(tree)
    error, _ = await ghostwrite(tree, name)
    assert isinstance(error, UnderstudyError), error
    assert error.kind == kind
    assert files_of(tree) == before


async def test_what_is_missing_is_named_with_the_line_to_type(tmp_path):
    tree = a_project(tmp_path, a="def f(x: int) -> int:\n    return x\n")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    error, _ = await ghostwrite(tree, "a.py", interpreter=str(bare / "bin/python"))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_MISSING
    assert error.hint is not None
    assert "pip install pytest 'hypothesis[cli]'" in error.hint
    error, _ = await ghostwrite(tree, "a.py", interpreter=str(tmp_path / "no/python"))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_MISSING
    error, _ = await ghostwrite(tree)
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.INPUT_EMPTY


def test_module_names(tmp_path):
    for name in ("pkg/__init__.py", "pkg/sub/__init__.py", "src/lib/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for path, folder, module in (
        ("a.py", ".", "a"),
        ("pkg/sub/b.py", ".", "pkg.sub.b"),
        ("pkg/__init__.py", ".", "pkg"),
        ("src/lib/c.py", "src", "lib.c"),
        ("src/space/d.py", "src", "space.d"),
        ("scripts/e.py", "scripts", "e"),
    ):
        assert agent.find_sources(tmp_path, agent.PurePosixPath(path)) == (tmp_path / folder, module)
