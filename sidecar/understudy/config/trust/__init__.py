"""Which workspaces the user trusts, and what that trust covers.

No file of a workspace is read as configuration, and no program of it started, before ``records`` says it is trusted.
"""
