"""Drive one agent: start it, read its events, enforce its limits, end it.

``source`` is the interface to an agent, ``driver`` runs any source, ``attempt`` is what it has reported so far,
``child_source`` makes a source of a program, and ``command_line`` builds its arguments. Nothing here depends on a
particular tool.
"""
