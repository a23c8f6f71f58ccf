"""Pure functions on text: quoting, sanitizing, URIs.

Nothing here reads a file or starts a process.
"""
