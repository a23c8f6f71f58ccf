"""Create, record and own the worktree of a delegation, and write its ``review.diff``."""
