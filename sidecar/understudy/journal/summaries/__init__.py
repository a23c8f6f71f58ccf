"""The state of a delegation from its events; ``journal.reader`` caches it and returns pages."""
