"""Pause delegators that keep failing: a state machine for each delegator and kind of failure, kept in files."""
