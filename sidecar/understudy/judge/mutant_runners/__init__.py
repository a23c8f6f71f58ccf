"""Run the tests of a check on mutants, in copies of the result.

``mutant_runs`` runs a batch. ``python_tests`` has the runner of pytest. Every check can be run by ``check_mutants``,
which runs its command once for each mutant; the other modules know a test runner well enough to be faster or to know
executed lines.
"""
