"""What a face offers to the functions of the table: who asks, what they see, and how to reach them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from understudy.engine.buffers import BufferEdit, Editor


class Caller(Protocol):
    """The asker of one request."""

    name: str
    """Which face: ``cli``, ``rpc``, ``lsp``."""

    def documents(self) -> Mapping[str, str]:
        """Return the open documents that differ, or may differ, from disk: URI → text."""
        ...

    def folder(self) -> Path | None:
        """Return the folder to fall back on when a request names no file and no workspace."""
        ...

    def cancelled(self) -> bool:
        """Tell whether the asker has withdrawn this request; asked at least once a second while it waits."""
        ...

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Send ``understudy/event`` for one delegation or all from now on (``delegations/subscribe``)."""
        ...

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending them."""
        ...


class Wary(Caller, Protocol):
    """A caller for whom trust may be withdrawn, for as long as it lives: an editor that trusts less than its person."""

    withdrawn: Callable[[Path], bool] | None
    """Tells of a workspace's real path whether it counts as untrusted, whatever is recorded; None: none does."""

    def trusts(self, workspace: Path) -> None:
        """Take note that the person trusts this workspace after all: it was recorded on this caller's behalf."""
        ...


class Editing(Caller, Protocol):
    """A caller that can change documents that are open in it: an ``engine.buffers.Editor``, which says what counts."""

    def editable(self) -> Collection[str]:
        """Return the URIs, as in ``documents()``, of the documents that ``edit`` can change."""
        ...

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change all or none, each only if it still holds ``before``; false when it was refused."""
        ...


def editor_of(caller: Caller) -> Editor | None:
    """Return the caller as an editor if it is one."""
    able = callable(getattr(caller, "edit", None)) and callable(getattr(caller, "editable", None))
    return cast("Editor", caller) if able else None


class Here:
    """A caller without an editor: the command line, or a script."""

    name = "cli"

    def __init__(self, folder: Path | None = None) -> None:
        """Use ``folder`` where a request names none."""
        self._folder = folder

    def documents(self) -> Mapping[str, str]:
        """Return nothing: what is on disk is what the person sees."""
        return {}

    def folder(self) -> Path | None:
        """Return the folder given."""
        return self._folder

    def cancelled(self) -> bool:
        """Return false: Ctrl-C ends the process instead."""
        return False

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Refuse: there is nowhere to send notifications to."""
        from understudy.model.errors import ErrorKind, UnderstudyError  # noqa: PLC0415 - the rare path

        _ = delegation, after
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            "This face cannot send notifications.",
            hint="Use delegations/events with waitSeconds.",
        )

    def unfollow(self, delegation: str | None) -> None:
        """Do nothing: nothing is followed."""
