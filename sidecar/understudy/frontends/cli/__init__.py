"""Layer 7: the command line.

``app`` is the entry point: a lazy group that imports a command's module when that command runs, so that ``--help`` and
completion start fast. The folders ``delegate``, ``review`` and ``setup`` hold the commands, ``output`` renders events
and delegations as text and reads nothing, ``terminal`` asks the user. ``api_calls`` calls the method table;
``exit_codes`` lists the exit codes. It must not make decisions that other frontends also need: those belong in ``api``.
"""
