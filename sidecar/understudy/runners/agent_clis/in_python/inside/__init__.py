"""The program that an agent's own Python runs."""
