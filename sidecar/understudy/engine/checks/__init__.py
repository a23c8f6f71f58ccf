"""Judging a result: run the project's own checks on exactly that result, and say what can be believed.

``run.judge`` takes a result commit, makes the tree that commit, runs each check in the project's own
environment and returns what came of it with every reservation; ``verdict.verdict_of`` turns the facts of a
delegation into its verdict. Nothing here starts an agent, reads a journal, or trusts what an agent said: the only
inputs are two commits, the configured checks, and what programs did when they were run.

Where to go next: ``environment`` and ``editable`` find the project's interpreter and make it import the judged tree
instead of the user's checkout; ``detect`` knows the built-in test checks, ``execute`` runs one check once, ``reports``
reads what it said, ``control`` breaks the code under test, ``scope`` looks at which paths changed, ``probe/`` is what
runs inside the project's programs.
"""
