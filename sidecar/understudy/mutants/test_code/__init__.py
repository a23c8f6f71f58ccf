"""Tests in source code: where each is defined, which one an id of a test runner names, and a file without some of them.

Works on bytes alone, like the rest of ``mutants``. Start with ``definitions.definitions_of``.
"""
