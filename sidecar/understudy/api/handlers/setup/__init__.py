"""Requests about what is installed and configured: checks of the machine, tests of connections, instructions."""
