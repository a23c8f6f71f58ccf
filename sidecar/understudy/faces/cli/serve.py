"""``serve`` and ``rpc``: the doors for editors and for programs."""

from __future__ import annotations

import click

from understudy.faces.cli import options


@click.command(epilog=options.examples("understudy serve"))
@click.option("--stdio", is_flag=True, hidden=True, help="What clients say that know other transports, too.")
def serve(*, stdio: bool) -> int:
    """Be the language server of an editor, on stdio.

    An editor starts this; its configuration names the command `understudy serve`. The README has the lines for
    Neovim, Emacs, Vim, Helix and Kate.
    """
    from understudy.faces import lsp as face  # noqa: PLC0415 - imports lsprotocol

    _ = stdio
    return face.serve()


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
    help="Serve a Unix socket instead of stdio.",
)
def rpc(*, socket_path: str | None) -> int:
    """Serve the whole contract as JSON-RPC 2.0, one message a line.

    On stdio until its end, or on a socket that only you can connect to (0600, until Ctrl-C). `protocol/README.md` has
    the methods; notifications `understudy/event` follow a `delegations/subscribe`.
    """
    from understudy.faces import rpc as face  # noqa: PLC0415 - imports jsonrpcserver

    return face.serve_socket(socket_path) if socket_path else face.serve_stdio()
