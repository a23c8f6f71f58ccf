"""``serve``, ``rpc``, ``acp`` and ``mcp``."""

from __future__ import annotations

import click

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.command_group import SuggestingGroup


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


@click.command(epilog=options.examples("understudy acp"))
def acp() -> int:
    """Be an agent of the Agent Client Protocol on stdio.

    Zed, JetBrains IDEs, Neovim and Emacs start this command and talk to any delegator. Its changes reach your files
    when you accept them. docs/editors.md has the configuration of each.
    """
    from understudy.frontends import acp as agent

    return agent.serve_stdio()


class _McpGroup(SuggestingGroup):
    """The commands for registering the server; serving imports none of them."""

    def list_commands(self, _: click.Context) -> list[str]:
        return ["install", "status", "uninstall"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from understudy.frontends.cli.setup import other_agents

        return getattr(other_agents, f"mcp_{cmd_name}") if cmd_name in self.list_commands(ctx) else None


@click.group(
    cls=_McpGroup,
    invoke_without_command=True,
    epilog=options.examples(
        "understudy mcp install",
        "understudy mcp",
        "understudy mcp --tools delegate-local",
        "understudy mcp --http 7431 --token-file ~/.understudy-token",
    ),
)
@options.tool_sets
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve streamable HTTP on this port of 127.0.0.1 instead of stdio; 0 takes any free one.",
)
@click.option(
    "--token-file",
    metavar="PATH",
    type=click.Path(dir_okay=False),
    help="File (mode 0600) with the token for --http; default: the variable UNDERSTUDY_MCP_TOKEN.",
)
@click.option("--relay", "relay", metavar="FOLDER", hidden=True, help="Serve the relay tools of one delegation.")
@click.pass_context
def mcp(
    context: click.Context, *, tool_sets: tuple[str, ...], port: int | None, token_file: str | None, relay: str | None
) -> int | None:
    """Serve other agents over the Model Context Protocol.

    `install` registers the server in agents and editors, which then start it. Without a command, serves stdio until the
    end of input, or HTTP clients that send a token until Ctrl-C. docs/mcp.md lists the tools.
    """
    if context.invoked_subcommand is not None:
        return None
    from understudy.frontends import mcp as server

    if relay is not None:
        return server.serve_relay(relay)
    if port is None:
        if token_file is not None:
            raise click.UsageError("--token-file is for --http.")
        return server.serve_stdio(tool_sets)

    def report(address: str) -> None:
        click.echo(f"Serving {address}", err=True)

    return server.serve_http(tool_sets, port, token_file, report)
