"""Test the ghostwriter on small real projects: its tests pass, kill mutants, and are the only change."""

import ast
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, Recipe, Scope
from understudy.model.delegation.events import Event, File, Phase, ToolResult, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis.ghostwriter import Runner
from understudy.runners.runner import Outcome, ProjectPython, Task

RECIPE = Recipe(name="tests", title="Tests", returns="tree", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN)


async def ghostwrite(
    tree: Path, *files: str, interpreter: str | None = sys.executable, python: ProjectPython | None = None
):
    events: list[Event] = []
    task = Task(
        delegation_id=f"ghost-{time.monotonic_ns()}",
        recipe=RECIPE,
        prompt="",
        prompt_file=tree.parent / "prompt.md",
        worktree=tree,
        delegator=Delegator(name="ghostwriter", tool="ghostwriter"),
        files=list(files),
        interpreter=lambda: python or (interpreter and ProjectPython(interpreter)),
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
import datetime
import random
from dataclasses import dataclass


def double(number: int) -> int:
    return number * 2


def shorten(text: str, width: int = 5) -> str:
    if width < 1:
        raise ValueError("too narrow")
    return text if len(text) <= width else text[:width] + "."


def drawn(number: int) -> int:
    return random.randint(0, 1000) + number


def age(year: int) -> int:
    return datetime.date.today().year - year


def save(text: str) -> str:
    with open("saved.txt", "w") as file:
        file.write(text)
    return text + "!"


@dataclass
class Price:
    cents: int
    currency: str = "EUR"

    def text(self) -> str:
        return f"{self.cents // 100}.{self.cents % 100:02} {self.currency}"
"""


async def test_it_costs_nothing_even_when_it_fails(tmp_path):
    tree = a_project(tmp_path, a="x = 1")
    error, events = await ghostwrite(tree, "gone.py")
    assert isinstance(error, UnderstudyError)
    assert [event.cost_usd for event in events if isinstance(event, UsageReport)] == ["0"]


@pytest.mark.heavy
async def test_what_is_missing_is_installed_as_the_users_checkout_declares_it(tmp_path):
    group = '[dependency-groups]\ndev = ["numerics-x{}"]\n'
    tree = a_project(tmp_path, api__prices="import numerics_x\nx = 1\n")
    (tree / "api" / "pyproject.toml").write_text(group.format(" @ https://example.invalid"))
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "pyproject.toml").write_text(group.format("==2"))
    python = ProjectPython(sys.executable, folder="api", checkout=str(tmp_path))
    error, _ = await ghostwrite(tree, "api/prices.py", python=python)
    [install] = error.remedy.commands
    assert install[1:] == ["-m", "pip", "install", "numerics-x==2"]


@pytest.mark.heavy
async def test_a_generated_file_of_a_project_in_a_folder_is_named_as_seen_from_the_repository(tmp_path):
    tree = a_project(tmp_path, api__prices="import generated_prices\n")
    (tree / "api" / ".gitignore").write_text("generated_prices.py\n")
    error, _ = await ghostwrite(tree, "api/prices.py", python=ProjectPython(sys.executable, folder="api"))
    assert error.remedy.paths == ["api/generated_prices.py"]
    assert error.hint == 'Add `worktrees.copy = ["api/generated_prices.py"]` to .understudy/config.toml.'


@pytest.mark.heavy
async def test_a_flat_project(tmp_path):
    tree = a_project(tmp_path, arithmetic=PLAIN)
    outcome, events = await ghostwrite(tree, "arithmetic.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) == {"arithmetic.py", "tests/test_arithmetic.py"}
    text = (tree / "tests/test_arithmetic.py").read_text()
    assert "assert double(" in text
    assert "with pytest.raises(ValueError):\n        shorten(" in text
    assert "assert Price(" in text
    assert "width=5" not in text, "a default is left out"
    assert not {"drawn", "age", "save"} & set(re.findall(r"\w+", text)), text
    assert "save (calls open)" in outcome.text
    assert [event.path for event in events if isinstance(event, File)] == ["tests/test_arithmetic.py"]
    assert any(isinstance(event, Phase) for event in events)
    assert any(isinstance(event, ToolResult) for event in events)
    for arguments in (["check", "--select", "E,F,I,W"], ["format", "--check"]):
        ruff = [str(Path(sys.executable).with_name("ruff")), *arguments, "--isolated", "-"]
        checked = subprocess.run(ruff, input=text, text=True, capture_output=True, cwd=tree, check=False)
        assert checked.returncode == 0, checked.stdout + text
    assert run_pytest(tree).returncode == 0
    names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    (tree / "arithmetic.py").write_text(re.sub(r"( +)return ", r"\1raise RuntimeError\n\1return ", PLAIN))
    broken = run_pytest(tree)
    assert f"{len(names)} failed" in broken.stdout, "every test fails when every function is broken"
    assert "passed" not in broken.stdout


@pytest.mark.parametrize(
    "mutant",
    [("number * 2", "number * 3"), ("width < 1", "width <= 1"), ("<= width", "< width"), ("// 100", "// 101")],
)
@pytest.mark.heavy
async def test_small_changes_are_noticed(tmp_path, mutant):
    tree = a_project(tmp_path, arithmetic=PLAIN)
    await ghostwrite(tree, "arithmetic.py")
    (tree / "arithmetic.py").write_text(PLAIN.replace(*mutant))
    assert run_pytest(tree).returncode == 1


@pytest.mark.heavy
async def test_a_src_project_with_tests_of_its_own(tmp_path):
    habit = "def test_it():\n    assert True\n"
    tree = a_project(
        tmp_path,
        src__shop____init__="",
        src__shop__prices="def cents(amount: int) -> str:\n    return f'{amount + 1} ct'\n",
        tests__unit__test_prices=habit,
        tests__unit__test_prices_examples=habit,
    )
    (tree / "src/shop/__init__.py").write_text("")
    before = files_of(tree)
    outcome, _ = await ghostwrite(tree, "src/shop/prices.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) - before == {"tests/unit/test_shop_prices_examples.py"}
    assert (tree / "tests/unit/test_prices_examples.py").read_text() == habit
    assert "from shop.prices import cents" in (tree / "tests/unit/test_shop_prices_examples.py").read_text()
    assert run_pytest(tree).returncode == 0


@pytest.mark.heavy
async def test_the_examples_of_docstrings_and_readme_come_first(tmp_path):
    tree = a_project(
        tmp_path,
        words="""
            def title(text):
                \"\"\"Capitalise.

                >>> title("ada lovelace")
                'Ada Lovelace'
                >>> title("a wrong example")
                'something else'
                \"\"\"
                return " ".join(word.capitalize() for word in text.split(" "))


            def initials(text):
                return "".join(word[0] for word in text.split())
        """,
    )
    (tree / "README.md").write_text(
        "```python\nfrom words import initials\nname = 'Grace Brewster Hopper'\nassert initials(name) == 'GBH'\n```\n"
    )
    outcome, _ = await ghostwrite(tree, "words.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_words.py").read_text()
    assert 'assert title("ada lovelace") == "Ada Lovelace"' in text
    assert 'name = "Grace Brewster Hopper"\n    assert initials(name) == "GBH"' in text
    assert "a wrong example" not in text


ALIASED = """
    import shapes as s
    from shapes.points import *
    from datetime import date


    def widest(points):
        \"""Return the widest.

        >>> points = [s.Point(1, 2), Point(3, 4)]
        >>> s.widest(points).x
        3
        >>> _corner(points)
        (3, 4)
        >>> import math
        >>> math.dist(_corner(points), (0, 0))
        5.0
        >>> day(points)
        datetime.date(2024, 1, 3)
        \"""
        return max(points, key=lambda point: point.x)


    def _corner(points):
        return max(point.x for point in points), max(point.y for point in points)


    def day(points):
        return date(2024, len(points) - 1, widest(points).x)


    REGISTERED = s.register(widest)
"""
POINTS = """
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y


    origin_of_all = Point(0, 0)
"""
PACKAGE = """
    from shapes.points import *

    _names = set()


    def register(function):
        if function.__name__ in _names:
            raise KeyError(function.__name__)
        _names.add(function.__name__)
        return function


    from shapes.wide import widest
"""
FAR = """
    def far(point):
        '''Return how far it is.

        >>> far(Point(3, 4)) == math.hypot(3, 4)
        True
        >>> far(origin)
        0.0
        '''
        return abs(complex(point.x, point.y))
"""
CONFTEST = """
    import pytest
    from shapes import points


    @pytest.fixture(autouse=True)
    def names(doctest_namespace):
        doctest_namespace["math"] = __import__("math")
        doctest_namespace["Point"] = points.Point
        doctest_namespace["origin"] = points.origin_of_all
"""


@pytest.mark.heavy
async def test_examples_see_the_whole_namespace_of_their_module_as_with_doctest(tmp_path):
    tree = a_project(tmp_path, shapes__wide=ALIASED, shapes__points=POINTS)
    (tree / "shapes/__init__.py").write_text(textwrap.dedent(PACKAGE))
    outcome, _ = await ghostwrite(tree, "shapes/wide.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_wide.py").read_text()
    assert "import shapes as s\n" in text
    assert "from shapes.wide import " in text
    assert "Point" in text.partition("\n\n\n")[0], "a name that a star import brought"
    assert "from datetime import date\n" in text
    assert "assert day(points) == date(2024, 1, 3)" in text
    assert "assert _corner(points) == (3, 4)" in text
    assert "documented examples" not in outcome.text, "all hold"
    assert run_pytest(tree).returncode == 0


@pytest.mark.heavy
async def test_names_that_a_conftest_adds_are_imported(tmp_path):
    tree = a_project(tmp_path, shapes__points=POINTS, shapes__conftest=CONFTEST, shapes__far=FAR)
    (tree / "shapes/__init__.py").write_text("")
    outcome, _ = await ghostwrite(tree, "shapes/far.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_far.py").read_text()
    assert "import math\n" in text
    assert "from shapes.points import Point\n" in text
    assert "assert far(Point(3, 4)) == math.hypot(3, 4)" in text or "assert (far(Point(3, 4)) == " in text, text
    assert "`far(origin)` raises NameError: name 'origin' is not defined" in outcome.text, "an object, not an import"
    assert run_pytest(tree).returncode == 0


@pytest.mark.heavy
async def test_examples_that_fail_are_counted_and_explained_instead_of_asked_for(tmp_path):
    source = """
        def never(number):
            \"""Return something.

            >>> never(1)
            2
            >>> never(gone)
            3
            >>> never(gone + 1)
            3
            \"""
            return object()
    """
    tree = a_project(tmp_path, hopeless=source)
    outcome, _ = await ghostwrite(tree, "hopeless.py")
    assert isinstance(outcome, Outcome), outcome
    assert "Of 3 documented examples, 3 cannot be tests: " in outcome.text
    assert "`never(gone)` raises NameError: name 'gone' is not defined (2 examples)" in outcome.text
    assert "`never(1)` gives another value than the documentation shows" in outcome.text
    assert "`>>>`" not in outcome.text


def run_plain_pytest(tree: Path, folder: Path) -> subprocess.CompletedProcess:
    """Run pytest as a user does who has just cloned the project, in one of its folders."""
    program = str(Path(sys.executable).with_name("pytest"))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [program, "-q", "-p", "no:cacheprovider", str(tree)],
        cwd=folder, capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "adds"),
    [("", True), ("[pytest]\npythonpath = src\n", False), ("[pytest]\naddopts = --import-mode=importlib\n", True)],
)
@pytest.mark.heavy
async def test_a_module_directly_in_src_is_imported_by_plain_pytest(tmp_path, settings, adds):
    tree = a_project(tmp_path, src__lines="def double(number: int) -> int:\n    return number * 2\n")
    (tree / "pytest.ini").write_text(settings)
    outcome, _ = await ghostwrite(tree, "src/lines.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) == {"pytest.ini", "src/lines.py", "tests/test_lines.py"}
    text = (tree / "tests/test_lines.py").read_text()
    assert ("sys.path" in text) == adds, text
    assert ('`pythonpath = ["src"]`' in outcome.text) == adds
    for folder in (tree, tmp_path):
        done = run_plain_pytest(tree, folder)
        assert done.returncode == 0, done.stdout


@pytest.mark.heavy
async def test_what_conftest_puts_on_the_path_is_what_examples_are_confirmed_with(tmp_path):
    tree = a_project(
        tmp_path, src__lines="from extra import TWO\n\n\ndef double(number: int) -> int:\n    return number * TWO\n"
    )
    (tree / "vendored").mkdir()
    (tree / "vendored/extra.py").write_text("TWO = 2\n")
    (tree / "conftest.py").write_text(
        "import sys\nfrom pathlib import Path\n\nHERE = Path(__file__).parent\nsys.path[:0] = [str(HERE / 'src'), str(HERE / 'vendored')]\n"
    )
    outcome, _ = await ghostwrite(tree, "src/lines.py")
    assert isinstance(outcome, Outcome), outcome
    assert "sys.path" not in (tree / "tests/test_lines.py").read_text()
    assert run_plain_pytest(tree, tree).returncode == 0


@pytest.mark.heavy
async def test_the_copy_of_a_real_module(tmp_path):
    tree = a_project(tmp_path, paragraphs=Path(textwrap.__file__).read_text())
    outcome, _ = await ghostwrite(tree, "paragraphs.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_paragraphs.py").read_text()
    assert text.count("assert ") >= 5
    assert "assert dedent(" in text


@pytest.mark.heavy
async def test_nothing_left_is_no_change(tmp_path):
    tree = a_project(tmp_path, hopeless="import random\n\n\ndef never():\n    return random.random() + 1\n")
    outcome, events = await ghostwrite(tree, "hopeless.py")
    assert isinstance(outcome, Outcome), outcome
    assert files_of(tree) == {"hopeless.py"}
    assert not (tree / "tests").exists()
    assert "No useful test of hopeless was found" in outcome.text
    assert not [event for event in events if isinstance(event, File)]


@pytest.mark.parametrize(
    ("files", "name", "kind"),
    [
        ({"a": "x = 1"}, "missing.py", "input_empty"),
        ({"a": "raise SystemExit(3)"}, "a.py", "bad_request"),
        ({"a": "def f(:"}, "a.py", "bad_request"),
        ({"my-script": "x = 1"}, "my-script.py", "bad_request"),
        ({"json": "x = 1"}, "../tree/json.py", "input_empty"),
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
    assert "pip install pytest hypothesis" in error.hint
    error, _ = await ghostwrite(tree, "a.py", interpreter=str(tmp_path / "no/python"))
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.TOOL_MISSING
    error, _ = await ghostwrite(tree)
    assert isinstance(error, UnderstudyError)
    assert error.kind is ErrorKind.INPUT_EMPTY


CHECKED = """
def encode(text: str) -> str:
    return f"{sum(map(ord, text)) % 97}:{text[::-1]}"


def decode(text: str) -> str:
    check, _, body = text.partition(":")
    if check != str(sum(map(ord, body)) % 97):
        raise ValueError("checksum")
    return body[::-1]


def initial(text: str) -> str:
    return text[0].upper()
"""


@pytest.mark.heavy
async def test_a_property_kills_what_examples_do_not_and_a_crash_is_reported(tmp_path):
    tree = a_project(tmp_path, checked=CHECKED)
    outcome, _ = await ghostwrite(tree, "checked.py")
    assert isinstance(outcome, Outcome), outcome
    text = (tree / "tests/test_checked.py").read_text()
    assert "@given(st.text())\ndef test_decode_reverses_encode(text):\n    assert decode(encode(text)) == text" in text
    assert "1 property" in outcome.text
    assert "`initial('')` raises IndexError" in outcome.text
    broken = CHECKED.replace("return body[::-1]", "return body")
    (tree / "checked.py").write_text(broken)
    done = run_pytest(tree)
    assert "test_decode_reverses_encode" in done.stdout, done.stdout
    assert done.returncode == 1
