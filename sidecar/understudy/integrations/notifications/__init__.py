"""Send notifications: what they say, to which addresses they may go, and how each kind of receiver is called."""
