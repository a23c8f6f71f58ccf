"""Layer 1: file-system primitives that survive crashes and symbolic links.

``durable`` writes files atomically, ``locks`` locks them, and ``nofollow`` writes below a folder without following
links. Nothing here depends on what the files are for.
"""
