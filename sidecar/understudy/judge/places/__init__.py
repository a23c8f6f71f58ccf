"""Evidence for each changed place of a result: a hunk, and within it each function."""
