"""What editors show: their buffers, and the accepts that their documents have."""
