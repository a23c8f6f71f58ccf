"""What the options of several commands mean."""
