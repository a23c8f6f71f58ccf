"""Find the files that decide what a check does, and put the base's content of them into a result.

``known_files`` has the names of tests and of the configuration files of runners, ``started_files`` finds what an
argument vector starts, ``sections`` splits files that carry honest changes too, and ``deciding_files`` puts these
together.
"""
