"""Our own tool loop: a model on a model server works in a worktree by calling tools.

``loop_source`` is the source for the driver and holds what is sent, ``toolbox`` offers and executes the tools
(``file_tools`` and commands), and ``edit_blocks`` is the format for models that cannot call tools. A path
that a model names is resolved without following links and never leads out of the worktree.
"""
