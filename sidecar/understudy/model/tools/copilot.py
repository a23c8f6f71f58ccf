"""GitHub Copilot CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="copilot",
    title="GitHub Copilot CLI",
    binaries=("copilot",),
    repository_paths=(
        RepositoryPath(path=".github/agents/", what="agent definitions of GitHub Copilot"),
        RepositoryPath(path=".github/hooks/", what="hooks of GitHub Copilot"),
    ),
)
