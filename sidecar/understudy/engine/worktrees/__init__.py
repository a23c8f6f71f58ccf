"""Create, record, own and remove the worktree of a delegation."""
