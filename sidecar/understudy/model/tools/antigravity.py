"""Antigravity CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install, RepositoryPath

CAPABILITIES = Capabilities(
    name="antigravity",
    title="Antigravity CLI",
    binaries=("agy",),
    install=Install(
        about="The agent CLI of Google, the successor of Gemini CLI.",
        command="curl -fsSL https://antigravity.google/cli/install.sh | bash",
        login="Start it once and log in with a Google account.",
        login_command="agy",
        url="https://github.com/google-antigravity/antigravity-cli",
    ),
    # As its users report it: not tried, because it cannot be installed without its download host. Standard input is
    # never read, the prompt must come last, and without --add-dir it writes into a folder of its own.
    command=("agy", "--mode", "accept-edits", "--add-dir", "{worktree}", "--print", "{prompt}"),
    repository_paths=(
        RepositoryPath(path=".agents/", what="configuration of Antigravity"),
        RepositoryPath(path=".gemini/", what="configuration of Antigravity"),
    ),
)
