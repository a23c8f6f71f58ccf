"""Cursor CLI: known, not driven yet."""

from __future__ import annotations

from understudy.model.capabilities import Capabilities, Install, Interactive, RepositoryPath

CAPABILITIES = Capabilities(
    name="cursor",
    title="Cursor CLI",
    binaries=("cursor-agent",),
    install=Install(
        about="The agent CLI of Cursor.",
        command="curl https://cursor.com/install -fsS | bash",
        login="Log in with a Cursor account.",
        login_command="cursor-agent login",
        url="https://cursor.com/docs/cli/installation",
    ),
    # As its documentation has it: not tried, because it cannot be installed without its download host.
    command=("cursor-agent", "--print", "--force", "--output-format", "text", "{prompt}"),
    interactive=Interactive(
        command=("cursor-agent", "{options}", "--", "{prompt}"),
        model=("--model", "{model}"),
        yolo=("--force",),
        reserved_flags=frozenset({"-p", "--print", "--output-format", "-b", "--background", "--"}),
    ),
    repository_paths=(RepositoryPath(path=".cursor/", what="configuration of Cursor"),),
)
