"""Call the API from a command, and name what all commands share: exit codes and groups."""
