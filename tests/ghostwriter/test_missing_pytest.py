"""Test what the ghostwriter says where the project's interpreter has no pytest."""

import shlex
import sys
import venv

import pytest

from understudy.ghostwriter import __main__ as program
from understudy.ghostwriter.confined_runs import ConfinedRuns, Stop


def hint(tmp_path, monkeypatch, python, own_prefix, *, on_path=False, **files):
    root = tmp_path / "project"
    root.mkdir()
    for name in files.values():
        (root / name).write_text("")
    monkeypatch.setattr(program.sys, "prefix", str(own_prefix))
    with pytest.raises(Stop) as stop:
        program.has_hypothesis(ConfinedRuns(tmp_path / "top", str(python), root), root, on_path=on_path)
    assert stop.value.error["kind"] == "tool_missing"
    said = stop.value.error["hint"]
    assert " && ".join(map(shlex.join, stop.value.remedy.commands)) in said, "a button does the same"
    return said


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "top").mkdir()
    venv.create(tmp_path / "its env", with_pip=False)
    return tmp_path / "its env"


def test_an_environment_of_the_project_gets_pytest(tmp_path, monkeypatch, environment):
    python = environment / "bin/python"
    said = hint(tmp_path, monkeypatch, python, sys.base_prefix)
    assert f"'{python}' -m pip install pytest hypothesis. If it is not the project's, name its Python" in said


def test_ours_is_not_the_projects_and_a_new_one_gets_the_project_itself(tmp_path, monkeypatch, environment):
    said = hint(tmp_path, monkeypatch, environment / "bin/python", environment, project="pyproject.toml")
    make, install = said.partition(": ")[2].partition(". If")[0].split(" && ")
    assert shlex.split(make) == ["python3", "-m", "venv", ".venv"]
    assert shlex.split(install) == [*[".venv/bin/python", "-m", "pip", "install", "-e", ".", "pytest", "hypothesis"]]


def test_the_first_python_on_path_is_not_told_to_be_the_projects(tmp_path, monkeypatch, environment):
    said = hint(tmp_path, monkeypatch, environment / "bin/python", sys.base_prefix, on_path=True)
    assert said.startswith("Create an environment for the project")


def test_a_python_that_is_too_old_is_named(tmp_path):
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho old 3.7\n")
    old.chmod(0o755)
    (tmp_path / "top").mkdir()
    with pytest.raises(Stop, match=r"python is Python 3\.7\. The ghostwriter needs 3\.8 or later\.") as stop:
        program.has_hypothesis(ConfinedRuns(tmp_path / "top", str(old), tmp_path), tmp_path)
    assert stop.value.error["kind"] == "environment"
