"""What a summary says where no test was written."""

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from understudy.ghostwriter.choose_examples import Found
from understudy.ghostwriter.confined_runs import ConfinedRuns
from understudy.ghostwriter.documented import nothing_to_test
from understudy.ghostwriter.module_tests import ADVICE, ModuleTests, Report
from understudy.ghostwriter.test_file import TestFunction


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "pack"
    (folder / "inner").mkdir(parents=True)
    (folder / "width.py").write_text("TABLE = 1\ndef width(x): ...\ndef cut(x): ...\n")
    (folder / "inner" / "__init__.py").write_text("class Deep: ...\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from .width import width, cut\nfrom .inner import Deep\n", "src/pack/width.py, src/pack/inner/__init__.py."),
        ("from pack.width import cut\n", "src/pack/width.py."),
        (
            "from . import inner\nfrom .width import TABLE\nimport os\nfrom json import dumps\n",
            "no function and no class",
        ),
        ("def _first(): ...\nif 1:\n    class _Second: ...\n", "private (_first, _Second)"),
        ("x = 1\n", "no function and no class"),
    ],
)
def test_the_reason_and_a_better_file_are_named(package: Path, text: str, told: str) -> None:
    (package / "src/pack/__init__.py").write_text(text)
    assert told in nothing_to_test(package, PurePosixPath("src/pack/__init__.py"), package / "src")


def test_every_function_has_a_reason_and_there_is_a_next_step() -> None:
    report = Report("pack", units=["a", "b", "c"], left_out={"a": "it is asynchronous", "d": "calls open"}, unsteady=2)
    text = report.text(None)
    assert "Without a test: a (it is asynchronous); d (calls open); b, c (its examples did not hold again)." in text
    assert text.endswith(ADVICE)
    assert ADVICE not in Report("pack", nothing="It defines no function and no class.").text(None)


def test_a_function_that_a_kept_test_calls_is_not_without_a_test() -> None:
    found = Found("", [], "a(1)", ("value", "", "2"), 0, 1, {1})
    left_out = {"a": "no example was found", "ab": "it is asynchronous"}
    text = Report("pack", kept=[TestFunction("test_a", [], [found])], left_out=left_out).text(PurePosixPath("t.py"))
    assert "Without a test: ab (it is asynchronous)." in text


def test_a_unit_with_a_kept_example_or_in_its_setup_is_not_without_a_test() -> None:
    of_box = Found("Box", [], "ROUND.row", ("value", "", "'()'"), 2, 1, {1})
    of_graph = Found("", ["g = dense(1)"], "len(g)", ("value", "", "2"), 0, 1, {1})
    left_out = {"Box": "it ended the process", "dense": "no arguments were found", "other": "calls open"}
    report = Report("pack", kept=[TestFunction("test_a", [], [of_box, of_graph])], left_out=left_out)
    assert "Without a test: other (calls open)." in report.text(PurePosixPath("t.py"))


def test_the_time_zone_counts_where_the_clock_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack.py").write_text("x = 1\n")
    (tmp_path / "top").mkdir()
    asked = []

    def answer(_: ConfinedRuns, _program: str, request: dict[str, Any], **environment: Any) -> Iterator[dict[str, Any]]:
        asked.append((request["shift"], environment["TZ"]))
        unsteady = [n for n, example in enumerate(request["examples"]) if example["expression"] == "f(0)"]
        yield {"bad": None if request["shift"] else unsteady if environment["TZ"] == "Asia/Tokyo" else []}

    monkeypatch.setattr(ConfinedRuns, "ask", answer)
    confinement = ConfinedRuns(tmp_path / "top", sys.executable, tmp_path)
    job = ModuleTests(tmp_path, PurePosixPath("pack.py"), confinement, lambda *_, **__: None, 1.0)
    found = [Found("f", [], f"f({number})", ("value", "", "2"), 2, 1, {number}) for number in range(2)]
    assert [example.expression for example in job._confirmed(found)] == ["f(1)"]
    assert {zone for shift, zone in asked if shift == 0} == {"UTC", "Asia/Tokyo", "America/Lima"}
