"""Test that a check is tried in a copy of the current files, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wait_until import until

from understudy.config.validation import delegator_rules
from understudy.engine.check_setup import check_trial
from understudy.engine.check_setup.check_trial import PROPOSALS, CheckTrialRequest, propose
from understudy.engine.worktrees import delegation_worktree
from understudy.journal import delegation_folder
from understudy.model.delegation.spec import Bootstrap
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.model.remedies import Remedy, RemedyKind

FUNCTION = "def test_add():\n    assert 1 + 1 == 2\n"
CLASS = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n"
VITEST = json.dumps({"devDependencies": {"vitest": "^3"}, "scripts": {"test": "vitest run"}})
PROJECTS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "a table of pytest": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [("pytest", "pyproject.toml")]),
    "tox.ini": ({"tox.ini": "[pytest]\naddopts = -q\n"}, [("pytest", "tox.ini")]),
    "pytest as a requirement": ({"requirements-dev.txt": "pytest>=8\n"}, [("pytest", "requirements-dev.txt")]),
    "a plug-in is not pytest": ({"requirements.txt": "pytest-cov\nrequests\n"}, []),
    "plain functions": ({"tests/test_calc.py": FUNCTION}, [("pytest", "tests/test_calc.py")]),
    "conftest": ({"tests/conftest.py": "", "tests/test_a.py": CLASS}, [("pytest", "tests/conftest.py")]),
    "unittest in a folder": ({"tests/test_calc.py": CLASS}, [("unittest", "tests/test_calc.py")]),
    "unittest in a package": (
        {"tests/test_calc.py": CLASS, "tests/__init__.py": ""},
        [("unittest", "tests/test_calc.py")],
    ),
    "vitest, not its script": ({"package.json": VITEST, "package-lock.json": "{}"}, [("vitest", "package.json")]),
    "jest by its file": ({"package.json": "{}", "jest.config.js": ""}, [("jest", "jest.config.js")]),
    "npm test": ({"package.json": '{"scripts": {"test": "mocha"}}'}, [("npm", "package.json")]),
    "pnpm test": ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, [("pnpm", "package.json")]),
    "yarn test": ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, [("yarn", "package.json")]),
    "what npm init writes": ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, []),
    "go, not make": ({"go.mod": "module x\n", "Makefile": "test:\n\tgo test\n"}, [("go", "go.mod")]),
    "cargo": ({"Cargo.toml": "[package]\n"}, [("cargo", "Cargo.toml")]),
    "gradle": ({"gradlew": "", "build.gradle": ""}, [("gradle", "gradlew")]),
    "maven": ({"pom.xml": "<project/>"}, [("maven", "pom.xml")]),
    "rspec": ({".rspec": ""}, [("rspec", ".rspec")]),
    "make": ({"Makefile": "test: all\n\t./run\n"}, [("make", "Makefile")]),
    "a variable named test": ({"Makefile": "test := 1\nall:\n"}, []),
    "two languages": ({"go.mod": "", "pytest.ini": ""}, [("pytest", "pytest.ini"), ("go", "go.mod")]),
    "a folder": ({"web/package.json": VITEST, "README.md": ""}, [("vitest-web", "web/package.json")]),
    "dependencies are not projects": ({"node_modules/pytest.ini": "", ".hidden/go.mod": ""}, []),
    "pytest only in the environment": (
        {".venv/lib/python3.12/site-packages/pytest/__init__.py": "", "calc.py": ""},
        [("pytest", ".venv/lib/python3.12/site-packages/pytest")],
    ),
    "pytest in the environment, unittest in the tests": (
        {"venv/lib/python3.12/site-packages/pytest/__init__.py": "", "tests/test_calc.py": CLASS},
        [("unittest", "tests/test_calc.py")],
    ),
    "pytest in the environment, and make": (
        {"venv/lib/python3.12/site-packages/pytest/__init__.py": "", "Makefile": "test:\n\t./run\n"},
        [("make", "Makefile"), ("pytest", "venv/lib/python3.12/site-packages/pytest")],
    ),
    "pytest in the environment, a project in a folder": (
        {".venv/lib/python3.12/site-packages/pytest/__init__.py": "", "side/pytest.ini": ""},
        [("pytest-side", "side/pytest.ini")],
    ),
    "broken files": ({"package.json": "{", "pyproject.toml": "[[[", "tox.ini": "\0"}, []),
}


def git(project: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "kept.txt").write_text("committed\n")
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("ignored\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "start")
    (root / "kept.txt").write_text("changed\n")
    (root / "new.txt").write_text("untracked\n")
    return root


def request(project: Path, code: str, *, copy=(), setup=(), **fields) -> CheckTrialRequest:
    bootstrap = Bootstrap(copy=list(copy), link=[], setup=list(setup), setup_timeout_seconds=20.0)
    check = Check(name="tried", argv=[sys.executable, "-c", code], **fields)
    return CheckTrialRequest(workspace=str(project), check=check, bootstrap=bootstrap)


def trials() -> list[Path]:
    folder = delegation_folder.state_root() / "check-trials"
    return list(folder.iterdir()) if folder.exists() else []


def state_of(project: Path) -> tuple[str, str, list[str]]:
    return git(project, "status", "--short"), git(project, "for-each-ref"), sorted(os.listdir(project / ".git"))


def test_it_sees_the_current_files_and_changes_none(project):
    before = state_of(project)
    code = (
        "import os; print(sorted(os.listdir('.'))); print(open('kept.txt').read(), open('new.txt').read());"
        "open('kept.txt', 'w').write('written by the check'); print('3 passed, 1 skipped in 0.1s')"
    )
    trial = check_trial.ask(request(project, code), lambda: False)
    assert trial.ok, trial
    assert "changed\n untracked" in trial.output_tail
    assert "'ignored'" not in trial.output_tail
    assert trial.seconds > 0
    assert (project / "kept.txt").read_text() == "changed\n"
    assert state_of(project) == before
    assert trials() == []


def test_a_failure_has_its_exit_code_and_output(project):
    trial = check_trial.ask(request(project, "import sys; print('why'); sys.exit(3)"), lambda: False)
    assert (trial.ok, trial.exit_code, trial.timed_out) == (False, 3, False)
    assert "why" in trial.output_tail


def test_a_generated_module_that_is_missing_is_named(project):
    (project / ".gitignore").write_text("_version.py\n")
    package = project / "src" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_version.py").write_text("VERSION = '1'\n")
    code = "import sys; sys.path.insert(0, 'src'); import shop._version"
    trial = check_trial.ask(request(project, code), lambda: False)
    assert not trial.ok
    assert trial.notes[-1] == "git ignores src/shop/_version.py, so checks do not have it."
    assert 'add `worktrees.copy = ["src/shop/_version.py"]`' in trial.hint
    assert trial.remedy == Remedy(kind=RemedyKind.COPY_FILES, paths=["src/shop/_version.py"])
    copied = check_trial.ask(request(project, code, copy=["src/shop/_version.py"]), lambda: False)
    assert copied.ok, copied
    unknown = check_trial.ask(request(project, "import no_such_module"), lambda: False)
    assert not any("no_such_module" in note for note in unknown.notes)
    assert unknown.remedy is None


def test_a_missing_program_is_a_failure_with_a_reason(project):
    wish = request(project, "")
    wish.check.argv[:] = ["no-such-runner"]
    trial = check_trial.ask(wish, lambda: False)
    assert (trial.ok, trial.exit_code) == (False, None)
    assert "no-such-runner" in trial.output_tail


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (".venv/bin/python", "Write {python}, which is the project's own Python."),
        (".venv/bin/python3.11", "Write {python}, which is the project's own Python."),
        (".venv/bin/lint", "Write lint: its folder is on PATH."),
        ("node_modules/.bin/vitest", 'Set `link = ["node_modules"]` or a setup command'),
        ("web/node_modules/.bin/vitest", 'Set `link = ["web/node_modules"]` or a setup command'),
        ("vendor/bin/phpunit", 'Set `link = ["vendor"]` or a setup command'),
    ],
)
def test_a_program_that_git_ignores_is_named(project, program, advice):
    (project / ".gitignore").write_text(".venv\nnode_modules\nvendor\n")
    file = project / program
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    if program.startswith(".venv"):
        (project / ".venv" / "pyvenv.cfg").touch()
    wish = request(project, "")
    wish.check.argv[:] = [program]
    trial = check_trial.ask(wish, lambda: False)
    assert not trial.ok
    assert trial.notes[-1] == f"{program} is ignored by git, so checks do not have it."
    assert trial.hint.startswith(advice)
    links = [program.partition("/.bin/")[0].partition("/bin/")[0]] if advice.startswith("Set") else []
    assert (trial.remedy.paths if trial.remedy else []) == links
    wish.check.argv[:] = ["no/such/program"]
    assert not any("ignored by git" in note for note in check_trial.ask(wish, lambda: False).notes)


def test_its_time_is_limited(project):
    trial = check_trial.ask(request(project, "import time; time.sleep(60)", timeout_seconds=0.3), lambda: False)
    assert (trial.ok, trial.timed_out) == (False, True)
    assert trials() == []


def test_worktrees_get_extra_files_and_the_set_up(project):
    setup = [sys.executable, "-c", "open('installed', 'w').close()"]
    code = "open('installed'); open('ignored')"
    assert check_trial.ask(request(project, code, copy=["ignored"], setup=setup), lambda: False).ok
    with pytest.raises(UnderstudyError) as caught:
        check_trial.ask(request(project, code, setup=[sys.executable, "-c", "raise SystemExit(2)"]), lambda: False)
    assert caught.value.kind is ErrorKind.TOOL_CRASHED
    assert "exit code 2" in caught.value.message
    assert trials() == []


def test_cancelling_ends_it(project, tmp_path):
    started = tmp_path / "started"
    wish = request(project, f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")
    with pytest.raises(UnderstudyError) as caught:
        check_trial.ask(wish, started.exists)
    assert caught.value.kind is ErrorKind.CANCELLED


def test_the_folder_of_a_killed_worker_is_removed_by_the_next_trial(project, tmp_path):
    started = tmp_path / "started"
    wish = request(project, f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)")
    argv = [sys.executable, "-P", "-m", "understudy", "worker", check_trial.OPTION]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as worker:
        assert worker.stdin is not None
        worker.stdin.write(msgspec.json.encode(wish))
        worker.stdin.close()
        until(started.exists)
        check_trial.remove_abandoned(delegation_folder.state_root())
        running = [path for path in trials() if path.is_dir()]
        assert len(running) == 1, "the folder of a running worker is kept"
        os.kill(worker.pid, signal.SIGKILL)
    until(lambda: check_trial.remove_abandoned(delegation_folder.state_root()) or trials() == [])


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("name", PROJECTS)
def test_files_suggest_checks(tmp_path, name):
    files, expected = PROJECTS[name]
    found = propose(write(tmp_path, files), [], [], set_up=False)
    assert [(one.check.name, one.shown_by) for one in found] == expected
    for one in found:
        assert not list(delegator_rules.check_check(one.check))


def test_every_runner_is_suggested_by_some_project(tmp_path):
    found = set()
    for number, (files, _) in enumerate(PROJECTS.values()):
        found |= {tuple(one.check.argv) for one in propose(write(tmp_path / str(number), files), [], [], set_up=False)}
    assert {runner.argv for runner in PROPOSALS} <= found


def test_a_check_of_a_folder_runs_in_it(tmp_path):
    (found,) = propose(write(tmp_path, {"web/package.json": VITEST}), [], [], set_up=False)
    assert (found.check.cwd, found.check.argv[0]) == ("web", "node_modules/.bin/vitest")


def test_what_is_configured_is_marked_and_names_are_free(tmp_path):
    write(tmp_path, {"pytest.ini": ""})
    same = Check(name="mine", argv=["{python}", "-m", "pytest"])
    assert [one.configured for one in propose(tmp_path, [same], [], set_up=False)] == [True]
    (other,) = propose(tmp_path, [Check(name="pytest", argv=["x"])], [], set_up=False)
    assert (other.check.name, other.configured) == ("pytest-2", False)


def test_missing_dependencies_are_named(tmp_path, monkeypatch):
    write(tmp_path, {"package.json": VITEST, "node_modules/x/y": "", "go.mod": ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    vitest, go = propose(tmp_path, [], [], set_up=False)
    assert 'link = ["node_modules"]' in (vitest.hint or "")
    assert vitest.remedy == Remedy(kind=RemedyKind.LINK_FOLDERS, paths=["node_modules"])
    assert "go is not installed" in (go.problem or "")
    assert propose(tmp_path, [], ["node_modules"], set_up=False)[0].problem is None
    assert propose(tmp_path, [], [], set_up=True)[0].problem is None


@pytest.mark.parametrize(
    ("package", "needed"),
    [
        ({"scripts": {"test": "node --test"}}, False),
        ({"scripts": {"test": "node --test"}, "devDependencies": {}}, False),
        ({"scripts": {"test": "tap"}, "devDependencies": {"tap": "*"}}, True),
        ({"scripts": {"test": "node --test"}, "dependencies": {"left-pad": "*"}}, True),
    ],
)
def test_a_script_of_a_package_without_dependencies_needs_none(tmp_path, package, needed):
    write(tmp_path, {"package.json": json.dumps(package)})
    (npm,) = propose(tmp_path, [], [], set_up=False)
    assert ("node_modules is missing" in (npm.problem or "")) == needed


def test_links_and_special_files_are_not_read(tmp_path):
    outside = write(tmp_path / "outside", {"pytest.ini": "", "tests/conftest.py": ""})
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "pytest.ini").symlink_to(outside / "pytest.ini")
    (inside / "tests").symlink_to(outside / "tests")
    os.mkfifo(inside / "pyproject.toml")
    assert propose(inside, [], [], set_up=False) == []


NAMES = st.sampled_from(["package.json", "pyproject.toml", "tox.ini", "Makefile", "test_a.py", "requirements.txt"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.binary(max_size=60) | st.sampled_from([b"[]", b"{}", b'{"scripts": 1}'])))
def test_any_content_gives_valid_proposals(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("project")
    for name, content in files.items():
        (root / name).write_bytes(content)
    for one in propose(root, [], [], set_up=False):
        assert (root / one.shown_by).exists()
        assert not list(delegator_rules.check_check(one.check))


@pytest.mark.parametrize("after", [0, 382], ids=["whole", "cut off"])
async def test_a_set_up_that_fails_does_not_print_the_password_of_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pass-word-1234@proxy.example")
    argv = ["sh", "-c", f"echo $HTTPS_PROXY'{'x' * after}'; exit 1"]
    environment = delegation_worktree.setup_environment(tmp_path, tmp_path)
    assert environment["HTTPS_PROXY"] == os.environ["HTTPS_PROXY"], "what it downloads may need it"
    with pytest.raises(UnderstudyError, match="failed with exit code 1") as failed:
        await delegation_worktree.run_setup(argv, tmp_path, environment, mark="trial-1", timeout_seconds=30)
    assert "@proxy.example" in failed.value.message
    assert "234" not in failed.value.message
