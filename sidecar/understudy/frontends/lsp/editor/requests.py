"""A request of the contract, as the editor makes it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api import method_table
from understudy.api.caller import describe_asker
from understudy.api.serving.request import Answer, InFlightRequest
from understudy.frontends.lsp.editor import documents
from understudy.frontends.lsp.editor.client import Client, EditorRefused
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import msgspec

    from understudy.api.caller import BufferEdit, Editor

log = logging.getLogger(__name__)

STARTS = frozenset(
    method_table.PREFIX + name for name in ("delegations/start", "delegations/reply", "delegations/retry")
)
"""Requests that start a delegation and return its id."""

ANSWER_SECONDS = 30.0
"""How long to wait for the answer: some editors ask the user before they let a server change documents."""
SHOWN_SECONDS = 3.0
"""How long to wait for ``didChange`` after the editor has answered that it changed a document."""
LIMIT_SECONDS = 2 * (ANSWER_SECONDS + SHOWN_SECONDS) + 5.0
"""Limit for the whole edit, including a revert."""
_LOOK_SECONDS = 0.01


class ApiRequest(InFlightRequest):
    """One request in flight, which is the ``Caller`` of its handler."""

    name = "lsp"

    def __init__(self, client: Client, method: str, params: Any, answer: Answer, key: Any = None) -> None:
        """Create a request that has not started; ``params`` is parsed JSON or the method's structure."""
        super().__init__(method, params, self._respond, key)
        self._client = client
        self._then = answer

    def _respond(self, result: Any, error: UnderstudyError | None) -> None:
        self._client.requests.forget(self)
        if error is None and self.method in STARTS:
            # Before the client gets the answer, because its next request may be about this delegation.
            self._client.started(result.id, self.params)
        self._then(result, error)

    def asked_by(self) -> AskedBy:
        """Return a description of the editor, with this process's environment, which the editor has set."""
        client = self._client
        return describe_asker(
            self.name,
            client=f"{client.name} {client.version}".strip(),
            pid=client.process or os.getppid(),
            cwd=self.folder(),
            environ=os.environ,
        )

    def documents(self) -> Mapping[str, str]:
        """Return a snapshot of the open documents."""
        return self._client.documents.snapshot()

    def editor(self) -> Editor:
        """Return itself: it edits the open documents."""
        return self

    def editable(self) -> Collection[str]:
        """Return the URIs of the open documents, or none if the editor does not let servers change them."""
        return self._client.documents.open_uris() if can_edit(self._client) else ()

    def edit(self, edits: list[BufferEdit]) -> bool:
        """Change open documents, all or none; runs in the event loop and blocks the thread of the request."""
        changed: bool = self._client.wait_in_loop(apply_change(self._client, edits), LIMIT_SECONDS)
        return changed

    def folder(self) -> Path | None:
        """Return the first workspace folder."""
        return next(iter(self._client.folders), None)

    def opened(self) -> Sequence[Path]:
        """Return all workspace folders."""
        return self._client.folders

    @property
    def distrusts(self) -> Callable[[Path], bool] | None:
        """The function that returns whether trust in a workspace is revoked; None if the editor revoked none."""
        return None if self._client.options.trusted else self._client.distrusts

    def trusts(self, workspace: Path) -> None:
        """Note that the user trusted this workspace after the editor had revoked trust."""
        self._client.regained.add(workspace)

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Start sending events of one delegation or of all."""
        self._client.subscribe(delegation, after)

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending events of one delegation or of all."""
        self._client.unsubscribe(delegation)

    def tell(self, name: str, params: msgspec.Struct) -> None:
        """Send a notification, as fast as the editor reads."""
        self._client.notify_when_room(method_table.PREFIX + name, params)


def can_edit(client: Client) -> bool:
    """Return whether the editor lets a server change its documents."""
    return client.can("workspace.applyEdit")


async def apply_change(client: Client, edits: Sequence[BufferEdit]) -> bool:
    """Change all these documents or none; return true once they have the new text, false if the editor refused.

    Errors: ``merge_conflict`` if the text of a document is not the one for which the edit was made; ``timed_out`` if
    the editor does not answer, or answers that it made the change but does not send it.
    """
    versions = [_version_of(client, edit) for edit in edits]
    try:
        answer = await client.ask("workspace/applyEdit", _params(client, edits, versions), ANSWER_SECONDS)
    except EditorRefused as refused:
        answer = {"failureReason": str(refused)}
    except TimeoutError:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"The editor did not confirm within {ANSWER_SECONDS:g} s that it changed {_named(edits)}.",
            hint="Check the file before you accept again: the change may have been made.",
        ) from None
    if isinstance(answer, dict) and answer.get("applied") is True:
        await _until_shown(client, edits, versions)
        return True
    log.warning("the editor refused an edit: %s", answer)
    changed = [edit for edit in edits if _has(client, edit, edit.after)]
    if changed:
        await _revert(client, changed)
    elif any(not _has(client, edit, edit.before) for edit in edits):
        raise _other_text(edits)
    return False


def _version_of(client: Client, edit: BufferEdit) -> int:
    document = client.documents.look(edit.uri)
    if document is None or document[1] != edit.before:
        raise _other_text([edit])
    return document[0]


def _params(client: Client, edits: Sequence[BufferEdit], versions: Sequence[int]) -> dict[str, Any]:
    by_document = [(edit.uri, documents.text_edits(edit.before, edit.after, client.encoding)) for edit in edits]
    if client.can("workspace.workspaceEdit.documentChanges"):
        changes = [
            {"textDocument": {"uri": uri, "version": version}, "edits": text_edits}
            for (uri, text_edits), version in zip(by_document, versions, strict=True)
        ]
        return {"label": "Understudy", "edit": {"documentChanges": changes}}
    return {"label": "Understudy", "edit": {"changes": dict(by_document)}}


async def _until_shown(client: Client, edits: Sequence[BufferEdit], versions: Sequence[int]) -> None:
    """Wait until the editor has sent the new texts."""
    deadline = time.monotonic() + SHOWN_SECONDS
    while not all(_has(client, edit, edit.after) for edit in edits):
        if time.monotonic() > deadline:
            now = [client.documents.look(edit.uri) for edit in edits]
            if all(document is None or document[0] > version for document, version in zip(now, versions, strict=True)):
                return  # the user has typed more, or closed it
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"The editor reported the change of {_named(edits)}, but did not send it within {SHOWN_SECONDS:g} s.",
                hint="Check the file before you accept again: the change may have been made.",
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _revert(client: Client, changed: Sequence[BufferEdit]) -> None:
    """Revert the documents that an editor changed before it failed to change the others."""
    for edit in changed:
        document = client.documents.look(edit.uri)
        if document is None:
            continue
        back = type(edit)(edit.uri, document[1], edit.before)
        try:
            await client.ask("workspace/applyEdit", _params(client, [back], [document[0]]), ANSWER_SECONDS)
        except (EditorRefused, TimeoutError) as error:
            log.warning("a partial edit could not be reverted: %s", error)


def _has(client: Client, edit: BufferEdit, text: str) -> bool:
    """Return whether a document has this text; the editor may use other line breaks."""
    now = client.documents.text(edit.uri)
    return now is not None and (now == text or _unended(now) == _unended(text))


def _unended(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _other_text(edits: Sequence[BufferEdit]) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.MERGE_CONFLICT, f"{_named(edits)} was changed in the meantime.", hint="Repeat the decision."
    )


def _named(edits: Sequence[BufferEdit]) -> str:
    return ", ".join(sorted(edit.uri.rpartition("/")[2] for edit in edits))
