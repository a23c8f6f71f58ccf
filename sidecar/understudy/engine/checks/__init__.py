"""Run the project's own checks on exactly one result, and compute its verdict.

``judge.judge`` checks out a result commit, runs each check in the project's own environment, and returns the check
results and reservations; ``verdict_rules.verdict_of`` computes the verdict of a delegation. This package starts no
agent, reads no journal, and ignores what the agent claimed: its only inputs are two commits, the configured checks,
and the behaviour of the programs it runs.

``interpreter`` and ``editable_installs`` find the project's interpreter and make it import the judged worktree instead
of the user's checkout; ``builtin_checks`` detects tests, ``check_run`` runs one check once, ``runner_reports`` reads
its report, ``mutation`` finds out which small changes of the code the tests notice, ``change_scope`` checks which paths
changed, ``check_findings`` collects what the runs show, ``evidence_record`` keeps every run, ``probes`` and
``tampering`` guard the reports, and ``injected/`` runs inside the project's programs.
"""
