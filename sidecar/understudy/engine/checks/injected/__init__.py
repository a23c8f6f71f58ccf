"""Modules that run inside the project's programs: checks have this folder in ``PYTHONPATH`` and in ``NODE_OPTIONS``.

The *project's* interpreter imports these modules as top-level modules, never as part of this package. So they use only
the standard library of Python 3.8, import nothing from Understudy, and have a prefix in their names.
``understudy_pytest`` is a pytest plugin, ``understudy_unittest`` runs unittest, ``understudy_report`` writes the report
of both, ``understudy_mutants`` runs pytest on mutants, ``understudy_tree`` puts a tree back as it was, and
``node_hook.cjs`` lists the files that Node loads.

Limits: a test runs in the same process as its probe, as the same user. The path of the report is random and is removed
from the environment before the first test is imported, so a report cannot be forged by accident or by a simple line of
code. A test that searches the interpreter's memory for the probe can forge it, but such a test is visible in review.
"""
