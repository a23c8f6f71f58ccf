"""Let the tests and the configuration of the base judge a result.

``restored_runs`` runs checks on the result with the base's files and reports what depends on the difference;
``earlier_tests`` finds the command for all tests of a project, and takes out what earlier tests do.
"""
