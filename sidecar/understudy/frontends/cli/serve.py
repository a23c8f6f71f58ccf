"""``serve`` and ``rpc``."""

from __future__ import annotations

import click

from understudy.frontends.cli import options


@click.command(epilog=options.examples("understudy serve"))
@click.option(
    "--stdio", is_flag=True, hidden=True, help="Accepted for clients that always pass it; stdio is the only transport."
)
def serve(*, stdio: bool) -> int:
    """Run the language server on stdio.

    Editors start this command. docs/editors.md has the configuration for Neovim, Emacs, Vim, Helix and Kate.
    """
    from understudy.frontends import lsp

    _ = stdio
    return lsp.serve()


@click.command(
    epilog=options.examples(
        'echo \'{"jsonrpc":"2.0","id":1,"method":"understudy/version"}\' | understudy rpc',
        "understudy rpc --socket ~/.understudy.sock",
    )
)
@click.option(
    "--socket",
    "socket_path",
    metavar="PATH",
    type=click.Path(dir_okay=False),
    help="Listen on a Unix socket instead of stdio.",
)
def rpc(*, socket_path: str | None) -> int:
    """Serve the API as JSON-RPC 2.0, one message per line.

    Serves stdio until the end of input, or a socket that only you can connect to (mode 0600) until Ctrl-C.
    protocol/README.md lists the methods. `delegations/subscribe` starts the notifications `understudy/event`.
    """
    from understudy.frontends import rpc as server

    return server.serve_socket(socket_path) if socket_path else server.serve_stdio()
