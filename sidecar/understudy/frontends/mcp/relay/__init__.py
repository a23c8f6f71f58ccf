"""The MCP server of an agent that Understudy itself starts."""
