"""Floor 6: the command line.

``app`` is the entry: a lazy group that imports a command's module when that command runs, because the
first line a shell sees must not wait for msgspec. One module holds the commands of one concern
(``start``, ``look``, ``delegators``, …); ``live``, ``lines`` and ``card`` turn events and delegations into text and
read nothing; ``calls`` is the one way to the method table; ``exits`` lists the exit codes.
It must not decide anything that another face would have to decide again: that belongs into ``api``.
"""
