"""Crush: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install, RepositoryPath

CAPABILITIES = Capabilities(
    name="crush",
    title="Crush",
    binaries=("crush",),
    install=Install(
        about="The agent CLI of Charm, for models of many providers.",
        command="npm install -g @charmland/crush",
        login="Start it once and choose a provider; it asks for the API key.",
        login_command="crush",
        url="https://github.com/charmbracelet/crush#installation",
    ),
    # As its own help and documentation have it: not tried, because it cannot be installed without its download host.
    command=("crush", "run", "--quiet", "{prompt}"),
    repository_paths=(
        RepositoryPath(path=".crush.json", what="configuration of Crush"),
        RepositoryPath(path="crush.json", what="configuration of Crush"),
    ),
)
