"""Crush: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="crush",
    title="Crush",
    binaries=("crush",),
    repository_paths=(
        RepositoryPath(path=".crush.json", what="configuration of Crush"),
        RepositoryPath(path="crush.json", what="configuration of Crush"),
    ),
)
