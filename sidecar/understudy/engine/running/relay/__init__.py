"""What an agent does besides its work: ask the user, report progress, delegate further, and talk to its peers.

Everything happens in the worker of the agent's delegation, so an agent can only do what its worker does for it:
``relay_host`` takes its calls from its MCP server and executes them, ``child_delegations`` holds the bounds,
``peer_messages`` has the messages. What an agent gets of all this is in ``model.relay.relay_tools``.
"""
