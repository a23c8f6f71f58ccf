"""The workspace of a file, with and without git."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.git import repository


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "open" / "package" / "module.py"
    found.parent.mkdir(parents=True)
    found.touch()
    return found


def test_a_file_without_git_belongs_to_the_innermost_folder_that_the_editor_shows(file: Path, tmp_path: Path) -> None:
    shown = (tmp_path, tmp_path / "open", tmp_path / "other")
    assert repository.workspace_of([str(file)], None, None, shown) == tmp_path / "open"


def test_a_file_without_git_and_without_an_open_folder_belongs_to_its_own_folder(file: Path, tmp_path: Path) -> None:
    assert repository.workspace_of([str(file)], None, tmp_path, ()) == file.parent
    assert repository.workspace_of([str(file)], None, tmp_path, (tmp_path / "op",)) == file.parent


def test_a_folder_among_the_files_is_the_folder_of_its_files(file: Path, tmp_path: Path) -> None:
    assert repository.workspace_of([str(file.parent)], None, None, ()) == file.parent
    assert repository.workspace_of([str(file.parent)], None, None, (file.parent, tmp_path)) == file.parent


def test_a_repository_inside_an_open_folder_stays_a_workspace(file: Path, tmp_path: Path) -> None:
    git = tmp_path / "open" / ".git"
    for folder in (git / "objects", git / "refs"):
        folder.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert repository.workspace_of([str(file)], None, None, (tmp_path,)) == tmp_path / "open"
