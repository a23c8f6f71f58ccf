"""Drive agents over the Agent Client Protocol.

``acp`` is the runner, ``acp_stream`` the conversation; ``acp_messages`` reads its
parts. Only ``acp`` may be imported without the Python package of the protocol, which is an optional dependency.
"""
