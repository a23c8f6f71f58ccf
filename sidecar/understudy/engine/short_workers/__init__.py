"""Short worker processes, which answer one request and end."""
