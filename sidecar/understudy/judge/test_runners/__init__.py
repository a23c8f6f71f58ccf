"""The test runners that Understudy knows: one file with one declaration each.

``shared.test_runner`` says what a declaration holds, ``runs.runner_registry`` finds all of them. A further file here is
a further runner: no other module knows any of them by name.
"""
