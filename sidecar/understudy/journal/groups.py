"""Store groups of delegations that were started together: ``<state>/groups/<id>.json`` lists their members."""

from __future__ import annotations

from pathlib import Path

import msgspec

from understudy.files import durable, locks
from understudy.journal import delegation_folder, state_folder
from understudy.model.delegations import AskedBy, Group, GroupKind
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

MAX_MEMBERS = 1000
"""The most members: a group is waited for and cancelled as a whole."""
_FILE_BYTES = 1024 * 1024


def create(kind: GroupKind, asked_by: AskedBy, created_at: str) -> Group:
    """Create an empty group. Raises ``disk_full``, ``state_unavailable``."""
    group = Group(id=delegation_folder.new_id(), kind=kind, delegations=[], asked_by=asked_by, created_at=created_at)
    path = _file(group.id)
    with durable.named_failures(path):
        path.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
        durable.create(path, msgspec.json.encode(group), sync=True)
    return group


def read(group_id: str) -> Group:
    """Return a group; raise ``unknown_group`` when there is none with this id."""
    path = _file(group_id)
    with durable.named_failures(path):
        try:
            data = durable.read_whole(path, _FILE_BYTES)
        except FileNotFoundError:
            raise _unknown(group_id) from None
    try:
        return msgspec.json.decode(data, type=ready(Group))
    except msgspec.MsgspecError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{path} is damaged: {error}.",
            hint="You can still use its delegations one by one; `understudy list` shows them.",
        ) from error


def add(group_id: str, delegation: str) -> None:
    """Append a delegation to a group, once. Raises what ``read`` raises, and ``conflict`` when the group is full."""
    with locks.file_lock(state_folder.state_root() / "groups.lock"):
        group = read(group_id)
        if delegation in group.delegations:
            return
        if len(group.delegations) >= MAX_MEMBERS:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Group {group_id} already has {MAX_MEMBERS} delegations.",
                hint="Create another group.",
            )
        group.delegations.append(delegation)
        path = _file(group_id)
        with durable.named_failures(path):
            durable.replace(path, msgspec.json.encode(group), sync=True)


def _file(group_id: str) -> Path:
    if not delegation_folder.is_id(group_id):
        raise _unknown(group_id)
    return state_folder.state_root() / "groups" / f"{group_id}.json"


def _unknown(group_id: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.UNKNOWN_GROUP,
        f"There is no group {group_id[:64]!r}.",
        hint="Create one with `understudy groups create`.",
    )
