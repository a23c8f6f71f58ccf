"""Notice code that finds out that it is tested.

A test runs in the same process as the probe, so code that searches the process's memory for the probe can use it: a run
without the probe must agree (``runs.confirming_run``).
"""
