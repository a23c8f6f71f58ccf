"""Agents that are Python packages: Understudy's ``inside/host.py`` runs them in their own Python and prints events.

Their own programs print text for people, in which an error looks like an answer, and read settings of the repository
that no option turns off.
"""
