"""Run an agent in the user's own checkout, as ``launch.use_worktree = false`` says: the one exception to isolation.

The base is recorded as for every delegation. What is on disk when the agent starts is recorded, too, and what it
changes is the result, whose hunks are in the user's files already: each is accepted, and can be undone. The worktree is
for the checks only. One agent at a time works in a checkout.
"""
