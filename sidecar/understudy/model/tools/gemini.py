"""Gemini CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="gemini",
    title="Gemini CLI",
    binaries=("gemini",),
    session_variables=("GEMINI_SESSION_ID",),
    repository_paths=(RepositoryPath(path=".gemini/", what="configuration of Gemini CLI"),),
)
