"""Test that a specification of another version is refused when it is read."""

from __future__ import annotations

import json
import shutil

import pytest

from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

ID = "20261101-120000-abcde"


@pytest.fixture
def stored(own_home):
    """Store the specification of a delegation; return its folder."""

    def store(version: object) -> delegation_folder.Folder:
        folder = delegation_folder.delegations_root() / ID
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps({"id": ID, "version": version, "candidates": "of another form"}))
        return delegation_folder.open_folder(ID)

    yield store
    shutil.rmtree(delegation_folder.delegations_root())


@pytest.mark.parametrize(
    ("version", "age", "advice"),
    [(4, "A newer", "Update Understudy"), (2, "An older", "Use the version that started the delegation.")],
)
def test_another_version_is_refused_with_what_to_do(stored, version, age, advice):
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.read_spec(stored(version))
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    assert caught.value.message.startswith(age)
    assert f"version {version}" in caught.value.message
    assert advice in (caught.value.hint or "")


@pytest.mark.parametrize("version", ["2", None, 3])
def test_a_damaged_file_is_refused(stored, version):
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.read_spec(stored(version))
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    assert "cannot be decoded" in caught.value.message
