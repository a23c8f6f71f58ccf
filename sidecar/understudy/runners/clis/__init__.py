"""Agent CLIs: one small file each, all driven by ``machinery``.

A file here knows how one CLI wants to be called and what its lines mean; it starts nothing, waits for nothing and
judges nothing. ``protocol`` is Understudy's own line format, spoken by ``generic`` commands and by ``ghostwriter``.
"""
