"""Modules that run inside the project's programs: each run of a check has copies under random names.

The *project's* interpreter imports these modules as top-level modules, never as part of this package. So they use only
the standard library of Python 3.8, import nothing from Understudy, and have a prefix in their names that the copies
replace (``outcomes.probe``). ``understudy_pytest`` is a pytest plugin, ``understudy_unittest`` runs unittest,
``understudy_report`` sends the report of both, and ``node_hook.cjs`` lists the files that Node loads. Not copied are
``understudy_mutants``, which runs pytest on mutants, and ``understudy_tree``, which puts a tree back as it was.

Limits: a test runs in the same process as its probe, as the same user. A report is signed with a key that the probe
gets from ``outcomes.probe`` before the first test is imported, so a line that a test writes is recognised. A
test that searches the interpreter's memory for the probe can use it to sign, so a run without the probe must agree.
"""
