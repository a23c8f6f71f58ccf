"""Notice test code that deceives the judge.

``confirming_run`` compares a run with one without the probe, and ``suspicious_code`` names changed code that reaches
into a test runner or into its own process. A test runs in the same process as the probe, so code that searches the
process's memory for the probe can use it. Such code is named, and a run without the probe must agree.
"""
