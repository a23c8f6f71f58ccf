"""Agent CLIs: one small module each, all run by ``driver``.

A module here knows how to call one CLI and how to parse its output. It does not start processes, wait or judge
results. ``event_stream`` is Understudy's own line format, used by ``generic`` commands and by ``ghostwriter``.
"""
