"""Where each tool keeps its configuration, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from understudy.config.importing import agent_delegate, agent_delegator, delegate_local, operator_config, sideagent
from understudy.config.importing.draft import Draft
from understudy.config.importing.foreign_files import Document, Syntax, read_document
from understudy.model.config.config_entries import ImportSource
from understudy.model.errors import ErrorKind, UnderstudyError

SOURCES: tuple[ImportSource, ...] = get_args(ImportSource)

_CLAUDE_BYTES = 16 * 1024 * 1024
"""The largest ``~/.claude.json``: it also holds the history of prompts of every project."""
_MOST_BYTES = 256 * 1024


def read_source(
    source: ImportSource, path: Path | None, workspace: Path | None, variables: Mapping[str, str], home: Path
) -> Draft:
    """Return what a tool's configuration holds: that of ``path``, else of its usual places.

    Raises ``invalid_params`` if there is none, ``config_invalid`` with the place of what is wrong in a file.
    """
    draft = Draft()
    if source == "agent-delegate":
        agent_delegate.read(_one(draft, "toml", path, _agent_delegate(variables, home)), draft, variables)
    elif source == "agent-delegator":
        places = [workspace / ".agent-delegator.json"] if workspace is not None else []
        agent_delegator.read(_one(draft, "json", path, places), draft, variables)
    elif source == "sideagent":
        # Not the project's own file: a repository must not name programs for the user's configuration.
        folder = home / ".config"
        places = [folder / "sideagent" / "config.yaml", folder / "agent-offload" / "config.yaml"]
        sideagent.read(_one(draft, "yaml", path, places), draft)
    elif source == "operator":
        places = [home / ".config" / "operator" / "config.toml"]
        operator_config.read(_one(draft, "toml", path, places), draft, variables)
    else:
        _read_delegate_local(draft, path, workspace, variables, home)
    return draft


def _agent_delegate(variables: Mapping[str, str], home: Path) -> list[Path]:
    if variables.get("AGENT_DELEGATE_CONFIG"):
        return [Path(variables["AGENT_DELEGATE_CONFIG"])]
    return [Path(variables.get("AGENT_DELEGATE_HOME") or home / ".agent-delegate") / "profiles.toml"]


def _read_delegate_local(
    draft: Draft, path: Path | None, workspace: Path | None, variables: Mapping[str, str], home: Path
) -> None:
    project = os.fspath(workspace) if workspace is not None else None
    places = [home / ".claude.json", *([workspace / ".mcp.json"] if workspace is not None else [])]
    if path is not None:
        document = _one(draft, "json", path, [])
        if not delegate_local.read(document, draft, project):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{path} does not register delegate-local as an MCP server.",
                hint="Name a file whose `mcpServers` has it, or set its variables in the environment.",
            )
        return
    has_any = delegate_local.read_environment(variables, draft)
    for place in places:
        # A repository's own file is read by `doctor`, too.
        most = _CLAUDE_BYTES if place.name == ".claude.json" else _MOST_BYTES
        document_ = read_document(place, "json", most=most)
        if document_ is not None and delegate_local.read(document_, draft, project):
            draft.read.append(place)
            has_any = True
    if not has_any:
        raise _nothing(places)


def _one(draft: Draft, syntax: Syntax, path: Path | None, usual: list[Path]) -> Document:
    """Return the file that was named, else the first usual one that exists."""
    for place in [path] if path is not None else usual:
        most = _CLAUDE_BYTES if syntax == "json" and path is not None else _MOST_BYTES
        document = read_document(place.absolute(), syntax, most=most)
        if document is not None:
            draft.read.append(place.absolute())
            return document
    raise _nothing([path] if path is not None else usual)


def _nothing(places: list[Path]) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"There is nothing to import: {' and '.join(map(str, places))} "
        f"{'does' if len(places) == 1 else 'do'} not exist or {'has' if len(places) == 1 else 'have'} nothing for it.",
        hint="Name the file to import.",
        parameter="path",
    )
