"""Commands that decide on a result."""
