"""Layer 2: everything that Understudy does with git; no other package calls git.

``command`` holds the only function that starts git. ``repository`` finds and reads the user's repository,
``object_store`` is Understudy's own bare git directory, ``base`` commits exactly what the user sees to that store,
``worktree`` creates worktrees of it and reads them back, ``diff`` splits a result into hunks, ``path_rules`` classifies
paths.

Handling a result: ``merge`` merges selected hunks into what the user sees now, in memory; ``apply`` writes that to the
user's files, all or nothing; ``merge.undo`` computes the changes that undo it; ``merge.export`` adds a result to the
user's history, and ``worktree.rescue`` keeps removed worktrees restorable. ``changes`` declares the entries and changes
that they exchange, and reads and writes commits of them.

Rules: git never discovers a repository through a folder that an agent wrote (git directory and work tree are always
explicit). Nothing that a repository configures runs (hooks, filters, drivers, monitors). The user's ``.git`` is only
read, except for the one reference that ``base.capture`` writes and what ``merge.export`` adds when the user asks for
it. All functions are synchronous.

Contents are bytes: a base contains each file exactly as it is in the user's checkout, so a store and its worktrees
convert neither line endings nor encodings (``object_store.ATTRIBUTES``).

Start with ``command``, then ``base.capture.write_base``, then ``worktree.worktree.create_worktree``.
"""
