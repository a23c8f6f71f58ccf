"""Read, compare and keep the outcomes of single tests."""
