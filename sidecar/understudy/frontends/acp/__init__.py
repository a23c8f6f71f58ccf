"""Layer 7: every delegator as an agent of the Agent Client Protocol, for Zed, JetBrains IDEs, Neovim and Emacs.

A session is a conversation with a delegator in a workspace. Its prompts are delegations, which remember the session in
``asked_by``, so that a session can be loaded from their journals after any process was killed. ``acp_agent`` has the
handlers of the official SDK, ``turns`` runs one prompt, ``prompt_blocks`` reads it. ``event_updates`` and
``result_updates`` translate a journal and a result, ``session_options`` lists delegators, recipes and commands,
``decide_commands`` are the commands that decide. ``message_transport`` has the bounds that the SDK lacks. The SDK is an
optional dependency: only the modules below may import it. No other frontend imports this package.
"""

from __future__ import annotations

from understudy.model.text import lazy_packages


def serve_stdio() -> int:
    """Serve the client on stdin and stdout until stdin ends; return the exit code.

    Errors: ``tool_missing`` without the official SDK.
    """
    require_sdk()
    from understudy.frontends.acp import acp_agent

    return acp_agent.serve()


def require_sdk() -> None:
    """Raise ``tool_missing`` if the official SDK is not installed."""
    import importlib.util

    if importlib.util.find_spec("acp") is None:
        raise lazy_packages.ACP.missing("The ACP agent needs")
