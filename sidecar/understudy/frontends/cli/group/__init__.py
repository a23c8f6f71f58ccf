"""Start and follow groups of delegations."""
