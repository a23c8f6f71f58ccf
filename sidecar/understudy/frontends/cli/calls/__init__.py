"""Call the API from a command; what commands share: groups, options, exit codes and the trust question."""
