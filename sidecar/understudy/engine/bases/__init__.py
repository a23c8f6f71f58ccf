"""Record the base of a delegation: exactly the files that the user sees, with what is pending on them."""
