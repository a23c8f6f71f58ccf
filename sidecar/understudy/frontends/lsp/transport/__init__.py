"""Convert bytes to messages and back, tolerating invalid input."""
