"""Changing what is open in the editor: one ``workspace/applyEdit`` for all documents, on the versions read before."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from understudy.faces.lsp import documents
from understudy.faces.lsp.client import Refused
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.engine.buffers import BufferEdit
    from understudy.faces.lsp.client import Client

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""Some editors ask their person before they let a server change anything."""
SHOWN_SECONDS = 3.0
"""Between an editor's word that it changed a document and its ``didChange``."""
LIMIT_SECONDS = 2 * (ANSWER_SECONDS + SHOWN_SECONDS) + 5.0
"""All of it, taking back included."""
_LOOK_SECONDS = 0.01


def can_edit(client: Client) -> bool:
    """Tell whether the editor lets a server change its documents."""
    return client.can("workspace.applyEdit")


async def change(client: Client, edits: Sequence[BufferEdit]) -> bool:
    """Change all these documents or none; true when the documents here show it, false when the editor refused.

    Errors: ``apply_conflict`` when a document holds another text than the edit was made for; ``timed_out`` when the
    editor does not answer, or says that it did it and did not.
    """
    versions = [_version_of(client, one) for one in edits]
    try:
        answer = await client.ask(types.WORKSPACE_APPLY_EDIT, _params(client, edits, versions), ANSWER_SECONDS)
    except Refused as refused:
        answer = {"failureReason": str(refused)}
    except TimeoutError:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"The editor did not say within {ANSWER_SECONDS:g} s whether it changed {_named(edits)}.",
            hint="Look whether the change is there before you accept again.",
        ) from None
    if isinstance(answer, dict) and answer.get("applied") is True:
        await _until_shown(client, edits, versions)
        return True
    log.warning("the editor refused an edit: %s", answer)
    done = [one for one in edits if _holds(client, one, one.after)]
    if done:
        await _take_back(client, done)
    elif any(not _holds(client, one, one.before) for one in edits):
        raise _other_text(edits)
    return False


def _version_of(client: Client, edit: BufferEdit) -> int:
    found = client.documents.look(edit.uri)
    if found is None or found[1] != edit.before:
        raise _other_text([edit])
    return found[0]


def _params(client: Client, edits: Sequence[BufferEdit], versions: Sequence[int]) -> dict[str, Any]:
    by_document = [(one.uri, documents.text_edits(one.before, one.after, client.encoding)) for one in edits]
    if client.can("workspace.workspaceEdit.documentChanges"):
        changes = [
            {"textDocument": {"uri": uri, "version": version}, "edits": found}
            for (uri, found), version in zip(by_document, versions, strict=True)
        ]
        return {"label": "Understudy", "edit": {"documentChanges": changes}}
    return {"label": "Understudy", "edit": {"changes": dict(by_document)}}


async def _until_shown(client: Client, edits: Sequence[BufferEdit], versions: Sequence[int]) -> None:
    """Wait until the documents here are what the editor made of them."""
    deadline = time.monotonic() + SHOWN_SECONDS
    while not all(_holds(client, one, one.after) for one in edits):
        if time.monotonic() > deadline:
            now = [client.documents.look(one.uri) for one in edits]
            if all(found is None or found[0] > version for found, version in zip(now, versions, strict=True)):
                return  # the person types on, or closed it
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"The editor says that it changed {_named(edits)}, and did not show it within {SHOWN_SECONDS:g} s.",
                hint="Look whether the change is there before you accept again.",
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _take_back(client: Client, done: Sequence[BufferEdit]) -> None:
    """Undo what an editor did of an edit that it did not do as a whole."""
    for one in done:
        found = client.documents.look(one.uri)
        if found is None:
            continue
        back = type(one)(one.uri, found[1], one.before)
        try:
            await client.ask(types.WORKSPACE_APPLY_EDIT, _params(client, [back], [found[0]]), ANSWER_SECONDS)
        except (Refused, TimeoutError) as error:
            log.warning("half an edit could not be taken back: %s", error)


def _holds(client: Client, edit: BufferEdit, text: str) -> bool:
    """Tell whether a document holds a text; how its lines end is the editor's business."""
    now = client.documents.text(edit.uri)
    return now is not None and (now == text or _unended(now) == _unended(text))


def _unended(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _other_text(edits: Sequence[BufferEdit]) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.APPLY_CONFLICT, f"{_named(edits)} was changed in the meantime.", hint="Decide again."
    )


def _named(edits: Sequence[BufferEdit]) -> str:
    return ", ".join(sorted(one.uri.rpartition("/")[2] for one in edits))
