"""Test which contents are kept while an agent works in a checkout, and that nothing else is."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from understudy.journal import editor_saves
from understudy.model.text import path_quoting


@pytest.fixture
def checkout(tmp_path: Path, own_home: Path) -> Path:
    top = tmp_path / "checkout"
    top.mkdir()
    return top


def kept(checkout: Path) -> list[tuple[str, bool, bytes | None]]:
    return [
        (
            os.fsdecode(path_quoting.unquote(save.path)).removeprefix(f"{os.path.realpath(checkout)}/"),
            save.exists,
            editor_saves.kept_content(checkout, save),
        )
        for save in editor_saves.kept_saves(checkout)
    ]


def test_contents_are_kept_in_order_while_they_are_needed(checkout: Path) -> None:
    file, other = checkout / "a.txt", checkout.parent / "checkout-2" / "a.txt"
    other.parent.mkdir()
    odd = checkout / os.fsdecode(b"\xff.txt")
    for path in (file, other, odd):
        path.write_text("1")
    editor_saves.record([file])
    assert kept(checkout) == [], "no agent works there"
    editor_saves.keep_contents(checkout)
    editor_saves.record([file, other, odd])
    file.write_text("2")
    editor_saves.record([file])
    file.unlink()
    editor_saves.record([file])
    name = os.fsdecode(b"\xff.txt")
    assert kept(checkout) == [("a.txt", True, b"1"), (name, True, b"1"), ("a.txt", True, b"2"), ("a.txt", False, None)]
    folder = editor_saves.keeper(checkout)
    assert {path.stat().st_mode & 0o77 for path in [folder, *folder.iterdir()]} == {0}
    editor_saves.forget_contents(checkout)
    assert kept(checkout) == []
    assert not folder.exists()
    editor_saves.forget_contents(checkout)
    editor_saves.record([other])
    assert not folder.exists()


def test_what_is_too_large_is_only_listed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_saves, "FILE_BYTES", 10)
    monkeypatch.setattr(editor_saves, "KEPT_BYTES", 400)
    editor_saves.keep_contents(checkout)
    (checkout / "large").write_bytes(b"x" * 11)
    editor_saves.record([checkout / "large"])
    for number in range(100):
        (checkout / "a").write_text(f"{number:08}")
        editor_saves.record([checkout / "a"])
    found = kept(checkout)
    assert found[:2] == [("large", True, None), ("a", True, b"00000000")]
    assert found[-1] == ("a", True, None)
    saved = editor_saves.kept_saves(checkout)
    assert saved[0].digest == "", "unknown"
    assert saved[-1].digest, "its content is known by its digest"


def test_a_damaged_content_is_not_used(checkout: Path) -> None:
    editor_saves.keep_contents(checkout)
    (checkout / "a").write_text("1")
    editor_saves.record([checkout / "a"])
    [save] = editor_saves.kept_saves(checkout)
    (editor_saves.keeper(checkout) / save.file).write_text("2")
    assert kept(checkout) == [("a", True, None)]


def test_the_record_has_the_real_path_of_what_was_written(checkout: Path, tmp_path: Path) -> None:
    folder = checkout / "folder"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / name).write_text(name)
    (tmp_path / "other").symlink_to(folder)
    (folder / "link").symlink_to("one")

    editor_saves.record([tmp_path / "other" / name for name in ("one", "two", "link", "missing")])

    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two")}
    assert editor_saves.read() == {
        (str(folder / "one"), digests["one"]),
        (str(folder / "two"), digests["two"]),
        (str(folder / "one"), ""),  # a link is not read
        (str(folder / "missing"), ""),
    }
    assert editor_saves.is_known(folder / "link", editor_saves.read())
