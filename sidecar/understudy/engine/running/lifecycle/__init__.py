"""One delegation in its worker process, from its folder to its verdict.

``delegation_run`` is the order of things, and ``campaign`` its one loop: attempt, collect, judge, ask the policy what
follows. The other modules are their parts: ``held_folder`` owns the lock and the journal, ``stop_requests`` ends the
work early, ``preparation`` makes the base and the worktree, ``outside_comparison`` notices changes elsewhere,
``result_collection`` and ``judging`` turn the agent's changes into a judged result, ``trial`` holds a further one until
it is kept, and ``run_end`` decides how it ends. What one agent does is in ``running.attempts``.
"""
