"""Run tests on mutants with any test runner except pytest (``python_tests`` has that one).

``mutation_test`` chooses the runner of a check. Every check can be run by ``check_mutants``, which runs its
command once for each mutant; the other modules know a test runner well enough to be faster or to know executed lines.
"""
