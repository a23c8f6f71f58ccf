"""Further attempts of a delegation, for tests that notice more."""
