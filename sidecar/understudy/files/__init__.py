"""Layer 1: file-system primitives that survive crashes and symbolic links.

``durable`` writes files atomically and locks them, ``nofollow`` writes below a folder without following links,
and ``user_file`` changes a file that the user owns. Nothing here depends on what the files are for.
"""
