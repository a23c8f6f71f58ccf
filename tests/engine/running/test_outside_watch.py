"""What a comparison of files outside the worktree reports, and what it must not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy.engine.running import outside_watch
from understudy.engine.running.outside_watch import OutsideFiles, Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("a.py", "b.py"):
        (packages / name).write_text("x = 1\n")
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    return Places(
        checkout=tmp_path / "checkout", tracked={}, object_format="sha1", trees=(packages,), programs=(program,)
    )


def test_edited_new_and_removed_files_are_reported(places: Places) -> None:
    [packages], [program] = places.trees, places.programs
    files = OutsideFiles(places)
    assert not files.changed()
    (packages / "a.py").write_text("x = 2\n")
    (packages / "b.py").unlink()
    (packages / "new.py").write_text("")
    program.write_text("#!/bin/sh\nexit 0\n")
    assert files.changed().other == sorted(
        str(path) for path in (packages / "a.py", packages / "b.py", packages / "new.py", program)
    )
    assert not files.changed(), "each change is reported once"


def test_a_change_with_the_time_of_before_is_reported(places: Places) -> None:
    file = places.trees[0] / "a.py"
    files = OutsideFiles(places)
    facts = file.stat()
    file.write_text("x = 2\n")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert files.changed().other == [str(file)]


def test_a_place_that_cannot_be_looked_at_again_is_named_and_nothing_in_it_is_reported(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OutsideFiles(places)
    monkeypatch.setattr(outside_watch, "LONGEST_SECONDS", -1.0)
    assert not files.changed()
    assert [str(places.trees[0]) in note for note in files.notes] == [True]
    monkeypatch.undo()
    (places.trees[0] / "a.py").write_text("x = 2\n")
    assert not files.changed()


def test_a_change_after_an_early_look_at_a_tree_is_reported(places: Places) -> None:
    [packages] = places.trees
    look = outside_watch.look_at(packages)
    assert look is not None
    (packages / "a.py").write_text("x = 2\n")
    files = OutsideFiles(places, {packages: look})
    assert files.changed().other == [str(packages / "a.py")]


def test_an_early_look_at_a_tree_that_is_too_large_is_none_and_named_later(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_watch, "MOST_FILES", 1)
    assert outside_watch.look_at(places.trees[0]) is None
    assert [str(places.trees[0]) in note for note in OutsideFiles(places, {}).notes] == [True]


def test_a_program_in_the_home_folder_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "check").write_text("#!/bin/sh\n")
    (tmp_path / "check").chmod(0o700)
    assert outside_watch.programs_of([["~/check", "-q"]], "/usr/bin:/bin") == [tmp_path / "check"]
