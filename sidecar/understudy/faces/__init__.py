"""Floor 6: the ways in.

A face turns what arrives (arguments, JSON lines, an editor's messages) into a call of ``api.table`` and
what comes back into what its caller understands. It decides nothing, runs no agent, holds no key, and
knows no other face. ``cli`` is for people and scripts, ``rpc`` for programs.
"""
