"""Hidden checks: their files are in the worktree only while the check runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

SECRET = "from calc import add\n\ndef test_secret():\n    assert add(2, 3) == 5\n    assert add(7, -7) == 0\n"
HIDDEN = Check(
    name="secret",
    argv=["{python}", "-m", "pytest", "-q", "tests/test_secret.py"],
    hidden=True,
    files=["tests/test_secret.py"],
)
SPECIAL_CASE = "def add(a, b):\n    return {(1, 2): 3}[a, b]\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "own"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_secret.py").write_text(SECRET)
    return folder


async def test_code_that_knows_the_inputs_of_visible_tests_fails_the_hidden_one(project: Any, own: Path) -> None:
    project.has({"test_calc.py": "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"})
    judged = await project.judge({"calc.py": SPECIAL_CASE}, recipe="implement", writes=["**"], checks=(HIDDEN,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert "test_secret" in judged.only.output_tail, "the user sees why"


async def test_honest_code_passes_and_nothing_stays(project: Any, own: Path) -> None:
    judged = await project.judge({"README.md": "x"}, recipe="implement", writes=["**"], checks=(HIDDEN,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.passed == 1


@pytest.mark.heavy
async def test_a_hidden_check_counts_the_changes_that_it_notices(project: Any, own: Path) -> None:
    judged = await project.judge(
        {"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="implement", writes=["**"], checks=(HIDDEN,)
    )
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.killed == judged.only.mutation.viable > 0


@pytest.mark.heavy
async def test_a_file_or_folder_of_the_result_in_its_place_is_replaced(project: Any, own: Path) -> None:
    for taken in ({"tests/test_secret.py": "def test_fake():\n    pass\n"}, {"tests/test_secret.py/x.txt": "x"}):
        judged = await project.judge(
            {"calc.py": SPECIAL_CASE, **taken}, recipe="implement", writes=["**"], checks=(HIDDEN,)
        )
        assert judged.verdict is Verdict.CHECKS_FAILED
        assert Reservation.TREE_CHANGED not in judged.said


async def test_a_missing_file_fails_the_check_with_the_reason(project: Any, own: Path) -> None:
    (own / "tests" / "test_secret.py").unlink()
    judged = await project.judge({"new.txt": "x"}, recipe="implement", writes=["**"], checks=(HIDDEN,))
    assert judged.verdict is not Verdict.VERIFIED
    assert "cannot be read from" in judged.only.output_tail


async def test_more_files_than_are_allowed_fail_the_check_instead_of_being_left_out(project: Any, own: Path) -> None:
    many = msgspec.structs.replace(HIDDEN, files=[f"tests/test_{number}.py" for number in range(201)])
    judged = await project.judge({"new.txt": "x"}, recipe="implement", writes=["**"], checks=(many,))
    assert judged.verdict is not Verdict.VERIFIED
    assert "at most 200" in judged.only.output_tail
