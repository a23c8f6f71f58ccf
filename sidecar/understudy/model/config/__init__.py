"""What configuration files describe: delegators, model servers and recipes, and how they are listed on the wire."""
