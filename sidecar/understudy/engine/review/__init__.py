"""Decide on a result hunk by hunk, and keep files and journal consistent when a decision is interrupted."""
