"""What declarations of test runners are made of, and what several of them share."""
