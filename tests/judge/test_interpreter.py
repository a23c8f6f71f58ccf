"""The project's interpreter, and the judged tree in front of the user's checkout: real environments, real imports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.project import interpreter
from understudy.judge.project.interpreter import (
    Checkout,
    describe,
    find_interpreter,
    mapped_paths,
    project_folder,
    shadowed,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

TEST = "from pkg.calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
NEW_TEST = TEST.replace("1, 2) == 3", "4, 5) == 9")
GOOD, BAD = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])

SETUPTOOLS_FINDER = """
from __future__ import annotations
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING: dict[str, str] = {'pkg': '@CHECKOUT@/lib/code/pkg'}
NAMESPACES: dict[str, list[str]] = {}
PATH_PLACEHOLDER = '__editable__.pkg-1.0.finder' + ".__path_hook__"


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            folder = Path(MAPPING[fullname])
            return spec_from_file_location(
                fullname, folder / '__init__.py', submodule_search_locations=[str(folder)]
            )
        return None


def install():
    if not any(finder == _EditableFinder for finder in sys.meta_path):
        sys.meta_path.append(_EditableFinder)
"""
"""What setuptools 64 and later writes for a layout that no single path describes, shortened."""


def editable_by_path(project: Any, folder: str) -> None:
    (project.libraries / "_pkg.pth").write_text(f"{project.checkout / folder}\n")


def editable_by_finder(project: Any) -> None:
    text = SETUPTOOLS_FINDER.replace("@CHECKOUT@", str(project.checkout))
    (project.libraries / "__editable___pkg_1_0_finder.py").write_text(text)
    (project.libraries / "__editable__.pkg-1.0.pth").write_text(
        "import __editable___pkg_1_0_finder; __editable___pkg_1_0_finder.install()"
    )


def laid_out(project: Any, folder: str) -> str:
    """Give the project a package in `folder`, and return the path of its module."""
    prefix = f"{folder}/" if folder != "." else ""
    project.has(
        {"pyproject.toml": "", f"{prefix}pkg/__init__.py": "", f"{prefix}pkg/calc.py": GOOD, "tests/test_old.py": TEST}
    )
    project.environment()
    return f"{prefix}pkg/calc.py"


@pytest.mark.parametrize("layout", ["src", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("code", "."))])
async def test_an_editable_install_does_not_hide_what_the_agent_broke(empty_project: Any, layout: str) -> None:
    module = laid_out(empty_project, layout)
    editable_by_path(empty_project, layout)
    judged = await empty_project.judge({module: BAD}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.CHECKS_FAILED)


async def test_an_editable_mapping_is_turned_to_the_tree(empty_project: Any) -> None:
    module = laid_out(empty_project, "lib/code")
    editable_by_finder(empty_project)
    judged = await empty_project.judge({module: BAD}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    judged = await empty_project.judge({module: GOOD + "# better\n"}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)


async def test_the_mapping_holds_in_programs_that_tests_start(empty_project: Any) -> None:
    laid_out(empty_project, "lib/code")
    editable_by_finder(empty_project)
    text = "import subprocess, sys\ndef test_it():\n    code = 'import pkg.calc; print(pkg.calc.__file__)'\n    out = subprocess.check_output([sys.executable, '-c', code], text=True)\n    assert '/trees/' in out\n"
    judged = await empty_project.judge({"tests/test_new.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)


@pytest.mark.heavy
async def test_new_tests_of_an_editable_project_are_verified_and_bitten(empty_project: Any) -> None:
    module = laid_out(empty_project, "src")
    editable_by_path(empty_project, "src")
    judged = await empty_project.judge({"tests/test_new.py": NEW_TEST}, files=(module,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.killed == 2


async def test_code_from_the_checkout_is_named(empty_project: Any) -> None:
    # What only the checkout has (an ignored, generated module) is found through the editable install's own path.
    laid_out(empty_project, "code")
    (empty_project.checkout / "code" / "generated.py").write_text("X = 1\n")
    editable_by_path(empty_project, "code")
    text = "import generated\ndef test_it():\n    assert generated.X == 1\n"
    judged = await empty_project.judge({"tests/test_new.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.LOADED_CHECKOUT)
    assert judged.only.checkout_files == [str(empty_project.checkout / "code" / "generated.py")]


async def test_code_read_from_the_checkout_by_hand_is_named(empty_project: Any) -> None:
    laid_out(empty_project, "src")
    source = empty_project.checkout / "src" / "pkg" / "calc.py"
    text = f"def test_it():\n    space = {{}}\n    exec(open({str(source)!r}).read(), space)\n    assert space['add'](1, 2) == 3\n"
    judged = await empty_project.judge({"tests/test_new.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.LOADED_CHECKOUT)


async def test_an_environment_inside_the_checkout_is_not_the_checkout(empty_project: Any) -> None:
    laid_out(empty_project, "src")
    (empty_project.libraries / "installed.py").write_text("X = 1\n")
    text = "import installed\ndef test_it():\n    assert installed.X == 1\n"
    judged = await empty_project.judge({"tests/test_new.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)


async def test_a_link_into_the_checkout_is_seen_through(empty_project: Any) -> None:
    laid_out(empty_project, "src")
    (empty_project.checkout / "shared").mkdir()
    (empty_project.checkout / "shared" / "helper.py").write_text("X = 1\n")
    empty_project.tree._keep = ("linked",)
    empty_project.tree.path.mkdir(parents=True)
    (empty_project.tree.path / "linked").symlink_to(empty_project.checkout / "shared")
    text = "import linked.helper\ndef test_it():\n    assert linked.helper.X == 1\n"
    judged = await empty_project.judge({"tests/test_new.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.LOADED_CHECKOUT)


@pytest.mark.heavy
@pytest.mark.parametrize("layout", ["src", "flat"])
async def test_a_real_editable_install(empty_project: Any, layout: str, tmp_path: Path, package_linker: Any) -> None:
    prefix = "src/" if layout == "src" else ""
    where = '{"" = "src"}' if layout == "src" else "{}"
    empty_project.has(
        {
            "pyproject.toml": f'[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "pkg"\nversion = "1.0"\n[tool.setuptools]\npackages = ["pkg"]\npackage-dir = {where}\n',
            f"{prefix}pkg/__init__.py": "",
            f"{prefix}pkg/calc.py": GOOD,
            "tests/test_old.py": TEST,
        }
    )
    if layout == "flat":
        empty_project.has({"other/__init__.py": ""})
    venv = empty_project.checkout / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    libraries = next(venv.glob("lib/python*/site-packages"))
    install = [str(python), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "-e", "."]
    if subprocess.run([str(python), "-c", "import setuptools"], check=False).returncode != 0:
        pytest.skip("venv brings no setuptools here")
    # Old setuptools needs wheel to build; everything is linked in, so that nothing is downloaded.
    pytest.importorskip("wheel")
    package_linker(libraries, ("wheel", "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"))
    done = subprocess.run(install, cwd=empty_project.checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    empty_project.libraries = libraries
    for path in sorted((empty_project.checkout).rglob("*.egg-info")):
        shutil.rmtree(path)
    outside = subprocess.run(
        [str(python), "-c", "import pkg.calc; print(pkg.calc.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert outside.stdout.startswith(str(empty_project.checkout)), "the install is editable"
    judged = await empty_project.judge({f"{prefix}pkg/calc.py": BAD}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    judged = await empty_project.judge({"tests/test_new.py": NEW_TEST}, files=(f"{prefix}pkg/calc.py",))
    assert judged.is_(Verdict.VERIFIED)


def test_interpreters_are_found_in_order(empty_project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    workspace = empty_project.checkout
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def tool(name: str, answer: Path) -> None:
        (tools / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (tools / name).chmod(0o755)

    def found(configured: str | None = None) -> tuple[str, Path]:
        interpreter = find_interpreter(workspace, configured)
        assert interpreter is not None
        return interpreter.origin, interpreter.path

    (tools / "python3").symlink_to(sys.executable)
    assert found()[0] == "PATH"
    for name, marker in (("hatch", "hatch.toml"), ("pdm", "pdm.lock"), ("poetry", "poetry.lock"), ("uv", "uv.lock")):
        empty_project.environment(at=f"../{name}-env")
        tool(
            name,
            workspace.parent / f"{name}-env" / "bin" / "python" if name != "hatch" else workspace.parent / "hatch-env",
        )
        assert found()[0] != name, "its mark is not in the project yet"
        (workspace / marker).write_text("")
        assert found() == (name, workspace.parent / f"{name}-env" / "bin" / "python")
    empty_project.environment(at="venv")
    assert found() == ("venv", workspace / "venv" / "bin" / "python")
    empty_project.environment(at=".venv")
    assert found() == (".venv", workspace / ".venv" / "bin" / "python")
    empty_project.environment(at="elsewhere")
    assert found("elsewhere") == ("configured", workspace / "elsewhere" / "bin" / "python")
    with pytest.raises(UnderstudyError) as caught:
        found("nowhere")
    assert caught.value.kind is ErrorKind.CONFIG_INVALID


@pytest.fixture
def services(empty_project: Any) -> Any:
    """Return a repository of two services, of which one has an environment of its own."""
    empty_project.has(
        {"api/pyproject.toml": "[project]\nname = 'api'\n", "api/api/money.py": "def half(x): return x // 2\n"}
    )
    empty_project.has(
        {"api/api/__init__.py": "", "web/pytest.ini": "", "web/app/x.py": "", "lib/setup.py": "", "lib/y.py": ""}
    )
    (empty_project.environment(at="api/.venv") / "api.pth").write_text(f"{empty_project.checkout / 'api'}\n")
    return empty_project


@pytest.mark.parametrize(
    ("places", "folder"),
    [
        (["api/api/money.py"], "api"),
        (["api/api/money.py", "api/README.md", "README.md"], "api"),
        (["api"], "api"),
        (["web/app/x.py", "web/app/new.py"], "web"),
        (["lib/y.py"], "lib"),
        (["api/api/money.py", "web/app/x.py"], ""),
        (["other/x.py"], ""),
        (["README.md"], ""),
        ([], ""),
    ],
)
def test_the_nearest_project_counts(services: Any, places: list[str], folder: str) -> None:
    assert project_folder(services.checkout, places) == folder


def test_a_folder_of_many_files_is_looked_at_once(services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    is_set_up = interpreter._is_set_up
    monkeypatch.setattr(interpreter, "_is_set_up", lambda folder: looked.append(folder) or is_set_up(folder))
    assert project_folder(services.checkout, [f"other/deep/m{number}.py" for number in range(50)]) == ""
    assert len(looked) == 3


def test_only_an_environment_or_settings_of_pytest_separate_a_project_of_a_workspace(services: Any) -> None:
    services.environment(at=".venv")
    assert project_folder(services.checkout, ["lib/y.py"]) == ""
    assert project_folder(services.checkout, ["web/app/x.py"]) == "web"


def test_the_nearest_environment_is_found(services: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    top = services.checkout
    services.environment(at=".venv")

    def found(folder: str) -> Path:
        interpreter = find_interpreter(top, None, folder=folder)
        assert interpreter is not None
        return interpreter.path

    assert found("api") == found("api/api") == top / "api" / ".venv" / "bin" / "python"
    assert found("web") == found("") == top / ".venv" / "bin" / "python"
    assert find_interpreter(top, ".venv", folder="api").path == top / ".venv" / "bin" / "python"
    services.environment(at="../uv-env")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "uv").write_text(
        f"#!/bin/sh\n[ $(basename $PWD) = web ] && echo {top.parent}/uv-env/bin/python\n"
    )
    (tmp_path / "tools" / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
    (top / "web" / "uv.lock").write_text("")
    assert found("web/app") == top.parent / "uv-env" / "bin" / "python", "a tool is asked in the folder of its lock"


def test_a_tracked_environment_below_the_top_is_not_used(services: Any) -> None:
    for arguments in (["init", "-q"], ["add", "-f", "api/.venv/pyvenv.cfg"]):
        subprocess.run(["git", *arguments], cwd=services.checkout, check=True)
    interpreter = find_interpreter(services.checkout, None, folder="api")
    assert interpreter is None or interpreter.origin == "PATH"


def test_neither_a_link_nor_a_tool_leads_to_a_tracked_environment(
    services: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    top = services.checkout
    (top / "linked").symlink_to("api")
    (top / "api" / "uv.lock").write_text("")
    (tmp_path / "uv").write_text(f"#!/bin/sh\necho {top}/api/.venv/bin/python\n")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for arguments in (["init", "-q"], ["add", "-f", "api/.venv/pyvenv.cfg", "linked"]):
        subprocess.run(["git", *arguments], cwd=top, check=True)
    for folder in ("linked", "api"):
        found = find_interpreter(top, None, folder=folder)
        assert found is None or found.origin == "PATH"


def test_an_environment_that_a_submodule_tracks_is_not_used(services: Any) -> None:
    for folder, *arguments in ((".", "init", "-q"), ("api", "init", "-q"), ("api", "add", "-f", ".venv/pyvenv.cfg")):
        subprocess.run(["git", *arguments], cwd=services.checkout / folder, check=True)
    found = find_interpreter(services.checkout, None, folder="api/api")
    assert found is None or found.origin == "PATH"


async def test_new_tests_of_a_service_run_in_its_folder_with_its_environment(services: Any) -> None:
    test = "import os, sys\nfrom api.money import half\n\n\ndef test_half():\n    assert half(5) == 2\n    assert half(8) == 4\n"
    test += "    assert os.path.basename(os.getcwd()) == 'api'\n    assert sys.prefix.endswith('api/.venv')\n"
    judged = await services.judge({"api/tests/test_money.py": test}, files=("api/api/money.py",))
    assert judged.is_(Verdict.VERIFIED)


async def test_a_check_that_lacks_a_module_names_the_python_of_path(services: Any) -> None:
    test = "def test_half():\n    from api.money import half\n    assert half(5) == 2\n"
    judged = await services.judge({"web/test_money.py": test}, files=("web/app/x.py",))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert "found on PATH. If the project has another one, name its Python" in judged.only.output_tail


def test_an_interpreter_inside_the_tree_is_never_taken(empty_project: Any, tmp_path: Path) -> None:
    tree = tmp_path / "trees" / "1"
    tree.mkdir(parents=True)
    (tree / "bin").mkdir()
    (tree / "bin" / "python").symlink_to(sys.executable)
    (empty_project.checkout / ".venv").symlink_to(tree)
    interpreter = find_interpreter(empty_project.checkout, None, tree=tree)
    assert interpreter is None or not interpreter.path.is_relative_to(tree)
    assert interpreter is None or interpreter.origin == "PATH"
    with pytest.raises(UnderstudyError):
        find_interpreter(empty_project.checkout, str(tree / "bin" / "python"), tree=tree)


async def test_a_broken_interpreter_is_reported_and_nothing_is_verified(project: Any) -> None:
    project.environment()
    python = project.checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    judged = await project.judge({"test_calc.py": TEST})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)
    assert "does not start" in judged.notes


def test_an_interpreter_that_is_too_old_is_named(tmp_path: Path) -> None:
    program = interpreter._DESCRIBE.replace("(3, 7)", "(99,)")
    version = "{}.{}".format(*sys.version_info[:2])
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert json.loads(printed) == {"old": version}
    old = tmp_path / "python"
    old.write_text(f"#!/bin/sh\necho '{printed}'\n")
    old.chmod(0o755)
    with pytest.raises(UnderstudyError, match=f"is Python {version}. Tests run with 3.7 or later") as caught:
        describe(interpreter.Interpreter(old, ".venv"), neutral=tmp_path)
    assert caught.value.kind is ErrorKind.ENVIRONMENT


def test_an_interpreter_describes_itself(empty_project: Any, tmp_path: Path) -> None:
    libraries = empty_project.environment()
    (libraries / "x.pth").write_text(f"{empty_project.checkout}\nimport hook_of_x\n")
    (libraries / "hook_of_x.py").write_text(f"PLACE = {str(empty_project.checkout)!r}\n")
    interpreter = find_interpreter(empty_project.checkout, None)
    assert interpreter is not None
    facts = describe(interpreter, neutral=tmp_path)
    assert facts.has_pytest
    assert facts.version == tuple(sys.version_info[:3])
    assert str(empty_project.checkout) in facts.import_path
    assert list(facts.hooks) == ["hook_of_x"]
    checkout = Checkout(empty_project.checkout, facts.prefixes)
    assert mapped_paths(facts.import_path, checkout, Path("/tree")) == ["/tree"]
    assert shadowed(facts.hooks, checkout, Path("/tree")) == {"hook_of_x": "PLACE = '/tree'\n"}


def test_every_string_in_the_checkout_is_mapped_and_no_other(tmp_path: Path) -> None:
    root = tmp_path / "p"
    (root / ".venv").mkdir(parents=True)
    source = f"# ä\nA = ('é', {str(root)!r})\nB = ['{root}/build/x', '{root}-other', '{root}/.venv/lib', 'relative/p']\nC = '''{root}/\\\nlong'''\n"
    rewritten = shadowed({"m": source}, Checkout(root, [str(root / ".venv")]), Path("/t"))["m"]
    space: dict[str, Any] = {}
    exec(rewritten, space)  # noqa: S102 - our own text
    assert space["A"] == ("é", "/t")
    assert space["B"] == ["/t/build/x", f"{root}-other", f"{root}/.venv/lib", "relative/p"]
    assert space["C"] == "/t/long"


def test_a_linked_checkout_is_known_under_both_names(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    for workspace in (tmp_path / "link", real):
        checkout = Checkout(workspace)
        assert checkout.relative(str(tmp_path / "link" / "src")) == "src"
        assert checkout.relative(str(real / "src")) == "src"
        assert checkout.relative(str(tmp_path)) is None
        assert checkout.relative(str(real / "node_modules" / "x.js")) is None


def test_a_prefix_that_holds_the_checkout_hides_nothing(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "src" / "p", [str(tmp_path), "/"])
    assert checkout.relative(str(tmp_path / "src" / "p" / "x.py")) == "x.py"


async def test_the_interpreter_and_its_scripts_are_what_a_check_sees(project: Any) -> None:
    project.environment()
    code = "import json, os, sys; print(json.dumps([sys.prefix, os.environ['PATH'].split(':')[0], os.environ.get('VIRTUAL_ENV'), os.getcwd()]))"
    project.has({"sub/keep.txt": ""})
    check = Check(name="where", argv=["python", "-c", code], cwd="sub")
    judged = await project.judge({"README.md": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    venv = str(project.checkout / ".venv")
    assert json.loads(judged.only.output_tail) == [venv, f"{venv}/bin", venv, os.path.join(project.tree.path, "sub")]


@pytest.mark.parametrize("cwd", ["..", "/", "a/../../b", "nowhere"])
async def test_a_check_outside_the_tree_is_not_run(project: Any, cwd: str) -> None:
    check = Check(name="out", argv=["true"], cwd=cwd)
    judged = await project.judge({"README.md": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert "could not be run" in judged.only.output_tail


def test_only_a_shim_is_started_to_find_the_python_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, workspace = tmp_path / "programs", tmp_path / "workspace"
    programs.mkdir()
    workspace.mkdir()
    (programs / "python3").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setenv("PATH", str(programs))
    started: list[list[str]] = []
    ask = interpreter._ask
    monkeypatch.setattr(interpreter, "_ask", lambda argv, folder: started.append(argv) or ask(argv, folder))
    found = find_interpreter(workspace, None)
    assert (found.path, found.origin, started) == (programs / "python3", "PATH", [])
    (programs / "python3").unlink()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    assert find_interpreter(workspace, None).path == Path(sys.executable)
    assert [argv[0] for argv in started] == [str(programs / "python3")]
