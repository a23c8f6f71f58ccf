"""One delegation in its worker process, from its folder to its verdict.

``delegation_run`` is the order of things, and ``campaign`` its one loop: attempt, collect, judge, ask the policy what
follows. The other modules are their parts: ``stop_requests`` ends the work early, ``preparation``
makes the base and the worktree, ``outside_comparison`` notices changes elsewhere, ``results`` collects and judges what
the agent did, and ``trial`` holds a further result until it is kept. What one agent does is in ``running.attempts``.
"""
