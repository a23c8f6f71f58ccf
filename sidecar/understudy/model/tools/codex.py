"""Codex CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="codex",
    title="Codex CLI",
    binaries=("codex",),
    session_variables=("CODEX_SESSION_ID", "CODEX_THREAD_ID"),
    repository_paths=(RepositoryPath(path=".codex/", what="configuration of Codex"),),
)
