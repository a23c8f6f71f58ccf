"""What each configuration field accepts and means, for JSON Schemas and forms."""
