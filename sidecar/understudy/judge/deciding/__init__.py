"""Find the files that decide what a check does, and put the base's content of them into a result.

``runs.runner_registry`` has the names of tests and of the configuration files of runners, ``project.command_lines``
finds what an argument vector starts, ``restored_parts`` splits files that carry honest changes too, and
``deciding_files`` puts these together.
"""
