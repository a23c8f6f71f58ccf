"""``completion``."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from understudy.frontends.cli.arguments import options

VARIABLE = "_UNDERSTUDY_COMPLETE"
"""Click's name for the variable of a program called ``understudy``."""


@click.command(
    epilog=options.examples(
        "bash:  echo 'eval \"$(understudy completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(understudy completion zsh)\"' >> ~/.zshrc",
        "fish:  understudy completion fish > ~/.config/fish/completions/understudy.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the completion script for a shell: commands, options, IDs, delegators and recipes."""
    from understudy.frontends.cli.app import PROGRAM, group

    class_ = get_completion_class(shell)
    if class_ is None:  # pragma: no cover - Choice lists what click has
        raise click.UsageError(f"There is no completion for {shell}.")
    # Not the subclass's source(): for bash it starts a bash to query its version.
    click.echo(ShellComplete.source(class_(group, {}, PROGRAM, VARIABLE)))
