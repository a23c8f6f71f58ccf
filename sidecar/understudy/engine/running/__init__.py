"""Run a delegation: start it, queue it, run attempts in its worker, and write its end."""
