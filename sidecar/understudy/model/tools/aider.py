"""aider: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="aider",
    title="aider",
    binaries=("aider",),
    repository_paths=(RepositoryPath(path=".aider.conf.yml", what="configuration of aider"),),
)
