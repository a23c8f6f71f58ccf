"""What declarations of test runners are made of, and what asks all of them."""
