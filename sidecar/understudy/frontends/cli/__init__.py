"""Layer 7: the command line.

``app`` is the entry point: a lazy group that imports a command's module when that command runs, so that ``--help`` and
completion start fast. The folders ``delegate``, ``group``, ``text``, ``review``, ``setup`` and ``moving_in`` hold
the commands, ``output`` renders events and delegations as text and reads nothing, ``terminal`` asks the user. ``calls``
calls the method table, and has the options and exit codes that commands share. It must not make decisions that other
frontends also need: those belong in ``api``.
"""
