"""The capabilities that the server declares in its answer to ``initialize``.

pygls derives the same from the registered features, but only after the import of lsprotocol, which takes longer than
everything else up to the answer. A test compares the two.
"""

from __future__ import annotations

from typing import Any

import understudy
from understudy.api import method_table

NAME = "Understudy"
ENCODINGS = ("utf-8", "utf-16", "utf-32")
"""Position encodings that ``editor.documents`` supports."""
OPEN_REVIEW = "understudy-review/open"
"""A command that is not in the method table, because showing a document needs an editor."""
CODE_ACTION_KINDS = ("quickfix", "refactor")
_INCREMENTAL = 2
"""``TextDocumentSyncKind.Incremental``."""


def initialize_result(encoding: str) -> dict[str, Any]:
    """Return the ``InitializeResult`` with the negotiated position encoding."""
    requests = [method_table.PREFIX + name for name in method_table.METHODS]
    capabilities = {
        "positionEncoding": encoding,
        "textDocumentSync": {"openClose": True, "change": _INCREMENTAL, "save": True},
        "codeActionProvider": {"codeActionKinds": CODE_ACTION_KINDS, "resolveProvider": False},
        "codeLensProvider": {"resolveProvider": False},
        "executeCommandProvider": {"commands": [*requests, OPEN_REVIEW]},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        "experimental": {
            "understudy": {
                "protocolVersion": method_table.PROTOCOL_VERSION,
                "version": understudy.__version__,
                "requests": requests,
                "notifications": [method_table.PREFIX + name for name in method_table.NOTIFICATIONS],
            }
        },
    }
    return {"capabilities": capabilities, "serverInfo": {"name": NAME, "version": understudy.__version__}}


def position_encoding(client: dict[str, Any]) -> str:
    """Return the first of the client's position encodings that is supported here; UTF-16 by default (LSP 3.17)."""
    general = client.get("general")
    offered = general.get("positionEncodings") if isinstance(general, dict) else None
    encodings = [encoding for encoding in offered if encoding in ENCODINGS] if isinstance(offered, list) else []
    return encodings[0] if encodings else "utf-16"
