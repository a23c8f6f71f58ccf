"""goose: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install, RepositoryPath

CAPABILITIES = Capabilities(
    name="goose",
    title="goose",
    binaries=("goose",),
    acp_command=("goose", "acp"),
    install=Install(
        about="An open-source agent for models of many providers.",
        command="curl -fsSL https://github.com/aaif-goose/goose/releases/download/stable/download_cli.sh | bash",
        login="Choose a provider and save its API key.",
        login_command="goose configure",
        url="https://github.com/aaif-goose/goose",
    ),
    # A database migration tool of the same name prints "goose version: v3…".
    foreign_output=r"goose version",
    repository_paths=(RepositoryPath(path=".goose/", what="configuration of goose"),),
)
