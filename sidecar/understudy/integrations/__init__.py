"""Layer 4: tell other agents and editors about Understudy: its MCP server, and instructions for delegating."""
