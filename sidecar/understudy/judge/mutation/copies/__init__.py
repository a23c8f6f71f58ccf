"""Private copies of a result for runs on mutants, runs in several of them, and the temporary files of all runs."""
