"""Commands for those who come from another delegation tool: agent profiles, and its verbs as views of the same data."""
