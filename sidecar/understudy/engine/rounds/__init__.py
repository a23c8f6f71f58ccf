"""Further attempts of a delegation after its result was judged: checks that pass, and tests that notice more."""
