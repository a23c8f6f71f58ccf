"""The relay tools, the bounds of what agents delegate with them, and the schemas of tools."""
