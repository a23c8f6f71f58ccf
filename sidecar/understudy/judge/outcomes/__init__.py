"""Start the probe in the programs of a check; read, compare and keep the outcomes of single tests."""
