"""Read the configuration of other delegation tools, and plan what to write for it.

``foreign_files`` ← ``draft`` ← one reader per tool ← ``import_plan``.
"""
