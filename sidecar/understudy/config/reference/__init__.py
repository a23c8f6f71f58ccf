"""What each configuration field accepts and means, for help and completion."""
