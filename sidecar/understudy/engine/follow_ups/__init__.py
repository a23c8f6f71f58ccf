"""What follows a result: a reply, a retry, or its checks once more."""
