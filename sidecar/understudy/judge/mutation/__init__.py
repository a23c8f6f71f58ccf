"""Mutation testing of a result: find out whether its tests notice when the code is wrong.

``understudy.mutants`` makes the mutants; this package runs tests on them in a copy of the result and reports which ones
the tests killed. *Killed* means the same for every test runner: a test that passed on the unchanged code fails on the
mutant. The copy is the only place where a mutant ever stands.

``planning`` chooses the mutants of a check, ``mutation_test`` runs its tests on them (``judge.mutant_runners``), and
``mutation_evidence`` says what the outcome means for the verdict.
"""
