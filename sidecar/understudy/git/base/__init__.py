"""Commit exactly what the user sees, without touching their repository's state."""
