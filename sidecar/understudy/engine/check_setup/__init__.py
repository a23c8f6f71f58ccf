"""Find the checks that a project suggests, and try a check before it is saved."""
