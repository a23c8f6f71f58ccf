"""Register Understudy's MCP server in other agents and editors, and remove it again.

``client_table`` declares each client: its commands, its file, and what an entry looks like there. ``registration`` runs
the commands; for a client without any, it returns the snippet, and writes only a file that does not exist yet.
"""
