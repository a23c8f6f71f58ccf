"""LSP features that start and follow delegations."""
