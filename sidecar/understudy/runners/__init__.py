"""Layer 3: take a task, return events.

A runner drives one kind of agent (an agent CLI or a model server) and reports what it does as Understudy's own events.
When it fails, it raises an ``UnderstudyError`` whose kind says why. It must not choose delegators, write journals,
judge results or run checks: the engine does that. It must not trust an exit code: success needs an announced result
*and* exit code 0 *and* no error flag *and* a text if the recipe returns one.

Start with ``runner`` (``Task``, ``Outcome``, ``Runner``, and ``runner_for``, which says what drives a delegator).
``driver`` runs every agent as a ``Source``; ``agent_clis/generic`` is the smallest example, and ``backends/exchange``
is the source for a model server.
"""
