"""Register Understudy's MCP server in the configuration of other agents and editors, and remove it again.

``client_table`` declares each client: its file, and how an entry is written there. ``json_source`` and ``json_entries``
edit JSON, ``toml_entries`` TOML; both change no byte but those of the entry. ``registration`` reads and writes the
files. ``receipts`` keeps what was inserted, so that an uninstall restores the bytes that were there before.
"""
