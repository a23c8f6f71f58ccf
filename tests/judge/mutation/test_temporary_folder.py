"""The folder for temporary files of checks: where it is, and that nothing else is deleted with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from understudy.judge.runs.check_run import temporary_folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


async def test_it_is_in_the_place_of_the_system_and_ends_with_all_that_is_in_it(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    async with temporary_folder(scratch) as folder:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "closed" / "in").mkdir(parents=True)
        (folder / "closed" / "in" / "file").write_text("x")
        (folder / "closed" / "in").chmod(0o500)
        (folder / "closed").chmod(0)
    assert list(place.iterdir()) == []
    assert list(scratch.iterdir()) == []


async def test_without_such_a_place_it_is_in_the_scratch_folder(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    async with temporary_folder(scratch) as folder:
        assert folder.parent == scratch
    assert list(scratch.iterdir()) == []


async def test_what_a_test_puts_in_its_place_is_not_followed(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"  # on the same disk as the target of the move
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("kept")
    async with temporary_folder(scratch) as folder:
        (folder / "link").symlink_to(theirs)
        folder.rename(tmp_path / "moved")
        folder.symlink_to(theirs)
    assert (theirs / "file").read_text() == "kept"
    assert not folder.is_symlink()
    async with temporary_folder(scratch) as folder:
        (folder / "link").symlink_to(theirs)
    assert (theirs / "file").read_text() == "kept"
