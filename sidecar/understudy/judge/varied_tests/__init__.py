"""Copies of tests in which one input differs, and which write down values instead of comparing them.

Works on bytes alone: it reads no file and runs nothing. Start with ``copies.varied_file``. A further language is a
module with a ``Dialect``.
"""
