"""Store groups of delegations that were started together: ``<state>/groups/<id>.json`` lists their members."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.delegation.delegations import AskedBy, Group, GroupBudget, GroupKind
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

MAX_MEMBERS = 1000
"""The most members: a group is waited for and cancelled as a whole."""
_FILE_BYTES = 1024 * 1024
_START_SECONDS = 60.0
"""How long a start with a key waits for another one; 200 tasks take a few seconds."""


def create(kind: GroupKind, asked_by: AskedBy, created_at: str, budget: GroupBudget | None = None) -> Group:
    """Create an empty group. Raises ``disk_full``, ``state_unavailable``."""
    group = Group(
        id=delegation_folder.new_id(),
        kind=kind,
        delegations=[],
        budget=budget,
        asked_by=asked_by,
        created_at=created_at,
    )
    path = _file(group.id)
    with durable.named_failures(path):
        path.parent.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
        durable.create(path, msgspec.json.encode(group), sync=True)
    return group


def read(group_id: str) -> Group:
    """Return the group with this id, or the only one whose id ends in ``-group_id``; else raise ``unknown_group``."""
    path = _file(group_id if delegation_folder.is_id(group_id) else _whole_id(group_id))
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


def newest(limit: int) -> list[Group]:
    """Return at most ``limit`` groups, newest first, without damaged ones. Raises ``state_unavailable``."""
    groups: list[Group] = []
    for name in _ids():
        if len(groups) == limit:
            break
        with contextlib.suppress(UnderstudyError):  # it is damaged
            groups.append(read(name))
    return groups


def add(group_id: str, *delegations: str) -> None:
    """Append delegations to a group, each once. Raises what ``read`` raises, and ``conflict`` when the group is full.

    The group gets all of them or none.
    """
    with durable.file_lock(delegation_folder.state_root() / "groups.lock"):
        group = read(group_id)
        new = [delegation for delegation in delegations if delegation not in group.delegations]
        if not new:
            return
        if len(group.delegations) + len(new) > MAX_MEMBERS:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Group {group_id} would have more than {MAX_MEMBERS} delegations.",
                hint="Create another group.",
            )
        group.delegations += new
        path = _file(group.id)
        with durable.named_failures(path):
            durable.replace(path, msgspec.json.encode(group), sync=True)


@contextlib.contextmanager
def once(key: str | None) -> Iterator[Group | None]:
    """Let one process at a time start a group with an idempotency ``key``; yield the group that was started with it.

    Without a key, yield None at once.
    """
    if key is None:
        yield None
        return
    claimed = _claim_file(key)
    with durable.file_lock(claimed.with_name(".groups"), _START_SECONDS):
        group = None
        with contextlib.suppress(FileNotFoundError, UnderstudyError):  # unused, or the group was removed
            group = read(durable.read_whole(claimed, 64).decode("ascii", "replace"))
        yield group


def claim(key: str, group: Group) -> None:
    """Record which group was started with a key; inside ``once``."""
    path = _claim_file(key)
    with durable.named_failures(path):
        durable.replace(path, group.id.encode(), sync=True)


def _claim_file(key: str) -> Path:
    return delegation_folder.key_file(f"group {key}")


def _ids() -> list[str]:
    """Return the ids of all groups, newest first. Raises ``state_unavailable``."""
    folder = delegation_folder.state_root() / "groups"
    with durable.named_failures(folder):
        try:
            names = [path.stem for path in folder.iterdir() if path.suffix == ".json"]
        except FileNotFoundError:
            return []
    return sorted(filter(delegation_folder.is_id, names), reverse=True)


def _whole_id(short: str) -> str:
    matches = [group_id for group_id in _ids() if short and group_id.endswith(f"-{short}")]
    if len(matches) != 1:
        raise _unknown(short)
    return matches[0]


def _file(group_id: str) -> Path:
    if not delegation_folder.is_id(group_id):
        raise _unknown(group_id)
    return delegation_folder.state_root() / "groups" / f"{group_id}.json"


def _unknown(group_id: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.UNKNOWN_GROUP,
        f"There is no group {group_id[:64]!r}.",
        hint="List them with `understudy groups`.",
    )
