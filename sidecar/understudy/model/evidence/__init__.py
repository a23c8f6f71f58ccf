"""What is known of a result: mutants, and all runs of its checks."""
