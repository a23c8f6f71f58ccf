"""Write changes to the user's files, all or nothing, and recover interrupted writes."""
