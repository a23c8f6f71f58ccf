"""One delegation in its worker process, from its folder to its verdict.

``delegation_run`` is the order of things, and ``campaign`` its one loop: attempt, collect, judge, ask the policy what
follows. The other modules are their parts: ``preparation`` makes the base and the worktree, ``results`` collects and
judges what the agent did, and holds a further result until it is kept. What one agent does is in ``running.attempts``.
"""
