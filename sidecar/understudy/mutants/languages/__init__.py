"""A table for each language: what its grammar calls the things that can be mutated, and what no test can see."""
