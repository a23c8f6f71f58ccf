"""What runs inside the project's own programs: this folder stands on ``PYTHONPATH`` and in ``NODE_OPTIONS`` of a check.

The modules here are imported by the *project's* interpreter as top-level modules, never as part of this package, so
they use the standard library of Python 3.8 and nothing else, import nothing of Understudy, and keep their names
prefixed. ``understudy_probe`` is a plugin for pytest, ``understudy_unittest`` runs unittest, ``understudy_report``
writes what both saw, ``understudy_control`` is what the broken code calls, ``understudy_rewrite`` breaks it;
``probe.cjs`` lists what Node loads.

What this cannot do: a test runs in the same process as its probe and as the same user. The place of the report is
random and is taken out of the environment before the first test is imported, so nothing is forged by accident or by
a line of code; a test that hunts for the probe in the interpreter's memory can lie. Such a test is there to be read
in the review.
"""
