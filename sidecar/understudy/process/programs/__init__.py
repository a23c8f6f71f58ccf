"""Start a program: guarded, with an end that is always noticed."""
