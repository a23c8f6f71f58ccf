"""aider: known, driven by a ready-made definition only."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install, RepositoryPath

CAPABILITIES = Capabilities(
    name="aider",
    title="aider",
    binaries=("aider",),
    install=Install(
        about="An open-source agent that edits files of a git repository, with models of many providers.",
        command="python3 -m pip install aider-chat",
        login="Write the API key of your provider into ~/.aider.conf.yml; agents do not get it from your environment.",
        url="https://aider.chat/docs/install.html",
    ),
    command=("aider", "--yes-always", "--no-auto-commits", "--no-gitignore", "--map-tokens=0", "--message", "{prompt}"),
    repository_paths=(
        RepositoryPath(path=".aider.conf.yml", what="configuration of aider"),
        RepositoryPath(path=".aider.model.settings.yml", what="models of aider"),
        RepositoryPath(path=".aider.model.metadata.json", what="models of aider"),
    ),
)
