"""Measure what the ghostwriter writes for modules of real packages (all of them: scripts/measure_packages.py)."""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "measure_packages.py"
MODULES = ["inflection/__init__.py", "idna/intranges.py"]


@pytest.fixture(scope="module")
def measure_packages():
    spec = importlib.util.spec_from_file_location("measure_packages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def installed(measure_packages, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        return measure_packages.install()
    except subprocess.SubprocessError as error:
        pytest.skip(f"requirements/packages.txt cannot be installed: {error}")


def test_at_least_ten_packages_are_pinned(measure_packages):
    packages = {module.split("/")[0] for module in measure_packages.MODULES}
    assert len(packages) >= 10
    text = measure_packages.REQUIREMENTS.read_text()
    assert text.count("--hash=sha256:") >= text.count("==") > len(packages)
    assert "://" not in text, "no index address"


def test_shares_count_what_was_not_written(measure_packages):
    one = measure_packages.Measured("a.py", "verified", lines=3, executed=10, mutants=20, killed=6)
    none = measure_packages.Measured("b.py", "no_changes", mutants=20)
    told = measure_packages.together([one, none])
    assert "1 of 2 modules" in told
    assert "60% of 10 mutants on executed lines" in told
    assert "15% of 40 in whole files" in told


@pytest.mark.heavy
@pytest.mark.timeout(360)
def test_tests_of_real_modules_kill_the_mutants_of_another_program(measure_packages, installed, tmp_path):
    found = list(measure_packages.measured(tmp_path, MODULES, mutants=20, jobs=2))
    said = "\n".join(one.row() for one in found)
    verified = [one for one in found if one.verified]
    assert len(verified) >= 0.6 * len(found), said
    assert all(one.killed >= 0.3 * one.executed for one in verified), said
    executed, killed, mutants = (sum(getattr(one, name) for one in found) for name in ("executed", "killed", "mutants"))
    assert killed >= 0.6 * executed, said
    assert killed >= 0.3 * mutants, said
    assert mutants >= 30, said


@pytest.mark.heavy
def test_tests_without_assertions_kill_few(measure_packages, installed, tmp_path):
    copy = tmp_path / "one" / "copy"
    (copy / "tests").mkdir(parents=True)
    source = installed / "inflection.py"
    (copy / "inflection.py").write_bytes(source.read_bytes())
    (copy / "tests" / "test_inflection.py").write_text(
        "import inflection\n\n\ndef test_it():\n    inflection.pluralize('post')\n"
    )
    sys.path.append(str(installed))
    mutants = measure_packages.sampled_mutants(source.read_text(), 25, random.Random(1))
    found = measure_packages.Measured("inflection.py")
    measure_packages.judge(found, copy, mutants)
    assert not found.problem
    assert found.executed > 5
    assert found.killed < 0.3 * found.executed
    assert (copy / "inflection.py").read_bytes() == source.read_bytes()
