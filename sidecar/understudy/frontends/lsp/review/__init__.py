"""LSP features that review a result."""
