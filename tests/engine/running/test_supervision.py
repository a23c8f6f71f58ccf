"""What a full disk stops while delegations are read."""

from __future__ import annotations

import errno
import os

import pytest
from journals import spec_of_a_test

from understudy.api import messages as m
from understudy.api.caller import TerminalCaller
from understudy.api.handlers import delegations
from understudy.engine.review import decision_recovery
from understudy.engine.running import supervision
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError


def test_a_full_disk_hides_no_list_and_is_named_otherwise(monkeypatch) -> None:
    folder, lock = delegation_folder.create(spec_of_a_test, {})
    os.close(lock)
    (folder.path / "decision-intent.json").write_text("{}")  # the process that decided was killed

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(decision_recovery, "recover_delegation", full)
    with pytest.raises(UnderstudyError) as caught:
        supervision.current(folder)
    assert caught.value.kind is ErrorKind.DISK_FULL
    listed = delegations.list_page(TerminalCaller(), m.ListParams())
    assert [one.id for one in listed.delegations] == [folder.id]
