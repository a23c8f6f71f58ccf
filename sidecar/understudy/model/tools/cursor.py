"""Cursor CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="cursor",
    title="Cursor CLI",
    binaries=("cursor-agent",),
    repository_paths=(RepositoryPath(path=".cursor/", what="configuration of Cursor"),),
)
