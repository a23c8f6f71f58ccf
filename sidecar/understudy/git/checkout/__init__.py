"""Record what changes in the user's own checkout, without writing to it or to its repository."""
