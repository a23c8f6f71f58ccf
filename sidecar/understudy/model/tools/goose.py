"""goose: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, RepositoryPath

CAPABILITIES = Capabilities(
    name="goose",
    title="goose",
    binaries=("goose",),
    # A database migration tool of the same name prints "goose version: v3…".
    foreign_output=r"goose version",
    repository_paths=(RepositoryPath(path=".goose/", what="configuration of goose"),),
)
