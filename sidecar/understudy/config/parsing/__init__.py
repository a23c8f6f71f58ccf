"""Read one configuration file into structures, and explain what cannot be read.

Nothing here merges files or judges values: see ``config.loading`` and ``config.validation``.
"""
