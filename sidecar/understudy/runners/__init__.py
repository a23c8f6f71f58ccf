"""Floor 3: a task goes in, events come out.

A runner drives one kind of worker (an agent CLI, a model server) and tells what it does in
Understudy's own events; when it cannot, it raises an ``UnderstudyError`` whose kind says why. It must
not choose delegators, write journals, judge results or run checks: that is the engine's. It must
not believe an exit code: success needs a terminal event *and* the exit code *and* no error flag
*and* a result where one is due.

Start with ``base`` (``Task``, ``Outcome``, ``Runner``) and ``registry`` (which runner, what it honours);
``clis/machinery`` drives every agent CLI, ``clis/generic`` is the smallest user of it, and
``backends/openai`` speaks to model servers.
"""
