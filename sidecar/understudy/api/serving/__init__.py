"""What every transport needs to serve requests: threads, cancellation, subscriptions."""
