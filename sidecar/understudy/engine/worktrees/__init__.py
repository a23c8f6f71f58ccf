"""Create, record, own and remove the worktree of a delegation, and watch the files outside it."""
