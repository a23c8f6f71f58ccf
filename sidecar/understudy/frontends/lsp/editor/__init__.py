"""The connected editor: its documents, capabilities and requests."""
