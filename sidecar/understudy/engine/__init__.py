"""Layer 4: run a delegation from its request to its verdict, and apply the decisions on its result.

``planning`` turns a request into a plan; ``running`` starts the worker process and runs the attempts; ``worktrees``
manages the worktrees; ``checks`` runs the checks on a result, ``check_setup`` proposes and tries new ones; ``review``
accepts, rejects and amends hunks; ``retention`` discards and expires files; ``follow_ups`` replies to a result or
retries it, ``recheck`` runs its checks again; ``workspaces`` and ``text_encoding`` map open documents to files. Nothing
here depends on a transport, prints, or asks the user: frontends (layer 6) do that. Start with ``running.start`` and
``running.lifecycle.delegation_run``. Agent CLIs are added in ``runners``, methods in ``api``.
"""
