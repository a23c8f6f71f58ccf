"""Apply the client's document notifications to ``Client.documents``.

Parameters are parsed without lsprotocol, so documents do not wait for its import. An invalid notification puts its
document out of sync; the user gets one message about it until the document is opened again. A change without a
document puts all documents out of sync, because it may be about any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.api.editor_files.accepted_documents import file_saved
from understudy.model.text.path_quoting import path_of
from understudy.model.text.sanitize import one_line

if TYPE_CHECKING:
    from understudy.frontends.lsp.editor.client import Client

_WARNING = 2
"""``MessageType.Warning``."""


def did_open(client: Client, uri: str, params: dict[str, Any]) -> None:
    """Add the document, with its text."""
    item = params["textDocument"]
    version, text = item.get("version"), item.get("text")
    if isinstance(text, str) and _is_version(version):
        client.documents.open(uri, version, text)
    else:
        client.documents.lose(uri, "its text or version is invalid", opens=True)
    client.run_hooks(client.on_document, "open", uri)
    _report(client, uri)


def did_change(client: Client, uri: str, params: dict[str, Any]) -> None:
    """Apply the changes."""
    version = params["textDocument"].get("version")
    if version is None or _is_version(version):
        client.documents.change(uri, version, params.get("contentChanges"))
    else:
        client.documents.lose(uri, "the version of a change is invalid")
    client.run_hooks(client.on_document, "change", uri)
    _report(client, uri)


def did_save(client: Client, uri: str, params: dict[str, Any]) -> None:
    """Take the text that was saved, if the client sent it."""
    text = params.get("text")
    client.documents.save(uri, text if isinstance(text, str) else None)
    path = path_of(uri)
    if path is not None:
        file_saved(path, client.documents.text(uri))
    client.run_hooks(client.on_document, "save", uri)


def did_close(client: Client, uri: str, _: dict[str, Any]) -> None:
    """Remove the document."""
    client.documents.close(uri)
    client.run_hooks(client.on_document, "close", uri)


_HANDLERS: dict[str, Callable[[Client, str, dict[str, Any]], None]] = {
    "textDocument/didOpen": did_open,
    "textDocument/didChange": did_change,
    "textDocument/didSave": did_save,
    "textDocument/didClose": did_close,
}
METHODS = frozenset(_HANDLERS)


def notified(client: Client, method: str, params: Any) -> None:
    """Handle one of ``METHODS``."""
    named = params.get("textDocument") if isinstance(params, dict) else None
    uri = named.get("uri") if isinstance(named, dict) else None
    if isinstance(uri, str):
        _HANDLERS[method](client, uri, params)
    elif method == "textDocument/didChange":
        for open_uri in client.documents.open_uris():
            client.documents.lose(open_uri, "a change does not name its document")
            client.run_hooks(client.on_document, "change", open_uri)
            _report(client, open_uri)


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _report(client: Client, uri: str) -> None:
    documents = client.documents
    if documents.out_of_sync(uri) and documents.first_report(uri):
        name = one_line(uri.rpartition("/")[2])
        text = (
            f"Understudy cannot follow the changes in {name}: the editor sent an invalid one. "
            "Close the file and open it again; until then, Understudy cannot use its text."
        )
        client.notify("window/showMessage", {"type": _WARNING, "message": text})
