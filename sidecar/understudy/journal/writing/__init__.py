"""Append to a delegation's journal: its worker does, and so does the process that finds its worker dead."""
