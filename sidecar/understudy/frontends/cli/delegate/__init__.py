"""Commands that start, follow and stop delegations."""
