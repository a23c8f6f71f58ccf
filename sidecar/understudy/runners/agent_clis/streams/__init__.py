"""Parsers of what agent CLIs print, one module for each format."""
