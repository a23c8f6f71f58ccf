"""File URIs and workspace folders."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit


@functools.lru_cache(1000)
def path_of(uri: str) -> Path | None:
    """Return the path of a ``file:`` URI; None for any other, or for one of another machine (RFC 8089)."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    # Editors leave "#" and "?" of a file's name unescaped now and then; a file URI has neither fragment nor query.
    text = uri[len("file:") :].removeprefix("//localhost").removeprefix("//")
    path = os.fsdecode(unquote_to_bytes(text))
    return Path(path) if path.startswith("/") and "\0" not in path else None


def uri_of(path: Path | str) -> str:
    """Return the ``file:`` URI of an absolute path."""
    return "file://" + quote(os.fsencode(path), safe="/~!$&'()*,;=:@+-._")


def folders_of(params: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the workspace folders that ``initialize`` names, else its root."""
    listed = params.get("workspaceFolders")
    uris = [folder.get("uri") for folder in listed if isinstance(folder, dict)] if isinstance(listed, list) else []
    if not uris and params.get("rootUri"):
        uris = [params["rootUri"]]
    paths = [path_of(uri) for uri in uris if isinstance(uri, str)]
    if not uris and isinstance(params.get("rootPath"), str) and params["rootPath"].startswith("/"):
        paths = [Path(params["rootPath"])]
    return tuple(dict.fromkeys(path for path in paths if path is not None))
