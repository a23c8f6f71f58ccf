"""Layer 4: run the project's own checks on exactly one result, and compute its verdict.

``judge.judge`` checks out a result commit, runs each check in the project's own environment, and returns the check
results and reservations; ``verdict_rules.verdict_of`` computes the verdict of a delegation. This package starts no
agent, reads no journal, and ignores what the agent claimed: its only inputs are two commits, the configured checks, and
the behaviour of the programs it runs.

``project`` finds the project's interpreter and makes it import the judged worktree instead of the user's checkout;
``test_runners`` declares what is known about each test runner; ``runs`` detects tests and runs a check; ``outcomes``
guards and reads the reports and compares tests; ``deciding`` finds the files that decide a check; ``base_runs`` runs
checks with the files of the base; ``mutant_runners`` runs tests on small changes of the code; ``mutation`` finds out
which of them the tests notice;
``check_findings`` collects what the runs show; ``test_aware_code`` looks for code that knows that it is tested, and
``injected/`` runs inside the project's programs.
"""
