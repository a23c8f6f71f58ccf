"""The state of a delegation from its events: ``fold`` computes it, ``summary`` caches it and returns pages."""
