"""Qwen Code: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="qwen",
    title="Qwen Code",
    binaries=("qwen",),
    repository_paths=(RepositoryPath(path=".qwen/", what="configuration of Qwen Code"),),
)
