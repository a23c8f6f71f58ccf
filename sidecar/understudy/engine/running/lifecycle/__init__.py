"""One delegation in its worker process, from its folder to its verdict.

``delegation_run`` is the order of things, and ``campaign`` its one loop: attempt, collect, judge, ask the policy what
follows. ``results`` collects and judges what the agent did, and holds a further result until it is kept. The base and
the worktree are made in ``running.preparation``; what one agent does is in ``running.attempts``.
"""
