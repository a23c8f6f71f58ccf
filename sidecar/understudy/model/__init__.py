"""Layer 0: data declarations, without I/O.

This package opens no file, starts no process and reads no clock. Every structure is declared once, for the wire, the
journal and the configuration files alike. Start with ``errors`` (the error kinds) and ``states`` (the lifecycle of a
delegation); ``config.delegators`` and ``delegations`` are the main structures, ``events`` the content of a journal.
"""
