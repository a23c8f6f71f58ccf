"""Change open documents with one ``workspace/applyEdit`` for all of them, based on the versions read before."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from understudy.frontends.lsp.editor import documents
from understudy.frontends.lsp.editor.client import EditorRefused
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.api.caller import BufferEdit
    from understudy.frontends.lsp.editor.client import Client

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""How long to wait for the answer: some editors ask the user before they let a server change documents."""
SHOWN_SECONDS = 3.0
"""How long to wait for ``didChange`` after the editor has answered that it changed a document."""
LIMIT_SECONDS = 2 * (ANSWER_SECONDS + SHOWN_SECONDS) + 5.0
"""Limit for the whole edit, including a revert."""
_LOOK_SECONDS = 0.01


def can_edit(client: Client) -> bool:
    """Return whether the editor lets a server change its documents."""
    return client.can("workspace.applyEdit")


async def change(client: Client, edits: Sequence[BufferEdit]) -> bool:
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
    current = client.documents.look(edit.uri)
    if current is None or current[1] != edit.before:
        raise _other_text([edit])
    return current[0]


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
            if all(current is None or current[0] > version for current, version in zip(now, versions, strict=True)):
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
        current = client.documents.look(edit.uri)
        if current is None:
            continue
        back = type(edit)(edit.uri, current[1], edit.before)
        try:
            await client.ask("workspace/applyEdit", _params(client, [back], [current[0]]), ANSWER_SECONDS)
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
