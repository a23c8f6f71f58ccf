"""The tools that the MCP server offers: their table, parameters, functions and answers."""
