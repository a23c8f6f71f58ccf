"""Decisions without I/O: what follows an attempt, which candidate is next, what may still be spent, what work costs.

Everything is a function of values; the time is one of them. ``next_step`` decides what a run does next, from its
history; ``candidates`` orders those who may do the work; ``circuit`` pauses delegators that keep failing;
``budget`` counts. The packages above gather the facts, and carry out what is decided here.
"""
