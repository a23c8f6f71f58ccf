"""Run a check on a tree, once or until its outcome is steady, and keep the evidence of every run."""
