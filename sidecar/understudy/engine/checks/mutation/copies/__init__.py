"""Private copies of a result, so that no tree that a person looks at contains a mutant, and runs in several of them."""
