"""Merge hunks in memory; nothing here writes to the user's files."""
