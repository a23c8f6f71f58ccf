"""Loaded by every Python program that a test starts while lines are recorded."""
