"""Check the rules that a configuration must satisfy before anything starts."""
