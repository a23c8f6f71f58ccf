"""Discard, restore and expire worktrees and files of delegations."""
