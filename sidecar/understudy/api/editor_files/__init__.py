"""What editors report of files: that they saved one, and which text of an accept a document has."""
