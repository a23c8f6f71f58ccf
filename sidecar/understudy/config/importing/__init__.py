"""Read the configuration of other delegation tools, and plan what to write for it.

``documents`` ← ``draft`` ← one reader per tool ← ``plan`` ← ``sources``.
"""
