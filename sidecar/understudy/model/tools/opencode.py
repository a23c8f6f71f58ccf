"""opencode: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="opencode",
    title="opencode",
    binaries=("opencode",),
    repository_paths=(
        RepositoryPath(path=".opencode/", what="configuration of opencode"),
        RepositoryPath(path="opencode.json", what="configuration of opencode"),
        RepositoryPath(path="opencode.jsonc", what="configuration of opencode"),
    ),
)
