"""Layer 5: run a delegation from its request to its verdict, and apply the decisions on its result.

``planning`` turns a request into a plan; ``worktrees`` manages the worktrees; ``queueing`` decides what starts next;
``review`` accepts, rejects and amends hunks; ``bases`` records what the user sees; ``running`` starts the worker
process, and runs the attempts that ``policy`` asks for; ``check_setup`` proposes and tries new checks;
``checkout_runs`` runs agents in the user's checkout; ``text_recipes`` asks for texts without a worker;
``retention`` discards and expires files; ``follow_ups`` replies to a result, retries it, or runs its checks again.
``tests/test_layers.py`` holds the order of these folders. Nothing here depends on a transport, prints, or asks the
user: frontends (layer 7) do that. Start with ``running.start`` and ``running.lifecycle.delegation_run``. Agent CLIs are
added in ``runners``, methods in ``api``.
"""
