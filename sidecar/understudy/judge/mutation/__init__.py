"""Mutation testing of a result: find out whether its tests notice when the code is wrong.

``understudy.mutants`` makes the mutants; this package runs tests on them in a copy of the result and reports which ones
the tests killed. *Killed* means the same for every test runner: a test that passed on the unchanged code fails on the
mutant. The copy is the only place where a mutant ever stands.

``mutation_test`` chooses the runner of a check. ``python_tests`` has that of pytest. Every check can be run by
``check_mutants``, which runs its command once for each mutant; the other modules know a test runner well enough to be
faster or to know executed lines.
"""
