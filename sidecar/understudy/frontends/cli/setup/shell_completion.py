"""``completion``: the script that a shell sources."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from understudy.faces.cli import exits, options

VARIABLE = "_UNDERSTUDY_COMPLETE"
"""Click's own convention for a program called ``understudy``."""


@click.command(
    epilog=options.examples(
        "bash:  echo 'eval \"$(understudy completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(understudy completion zsh)\"' >> ~/.zshrc",
        "fish:  understudy completion fish > ~/.config/fish/completions/understudy.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> int:
    """Print the completion script for a shell: commands, options, and your ids, delegators and recipes."""
    from understudy.faces.cli.app import PROGRAM, group  # noqa: PLC0415 - app imports this module

    class_ = get_completion_class(shell)
    if class_ is None:  # pragma: no cover - Choice lists what click has
        raise click.UsageError(f"there is no completion for {shell}")
    # Not the class's own source(): for bash that starts a bash to ask for its version.
    click.echo(ShellComplete.source(class_(group, {}, PROGRAM, VARIABLE)))
    return exits.Exit.OK
