"""Create, snapshot and remove the isolated worktree of a delegation."""
