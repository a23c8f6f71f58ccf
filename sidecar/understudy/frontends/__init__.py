"""Layer 7: the frontends.

A frontend translates its input (arguments, JSON lines, an editor's messages) into calls of ``api.method_table``, and
the results into its own output. It decides nothing, runs no agent, holds no key, and imports no other frontend.
``cli`` is for people and scripts, ``rpc`` for programs, ``lsp`` for editors, ``mcp`` for other agents, ``acp`` for
editors that talk to agents. ``json_lines`` (messages from bytes) and ``json_rpc`` (their envelope) are
below ``rpc``, ``lsp`` and ``acp``.
"""
