"""Create and change the configuration files that frontends make; a hand-written file is never rewritten."""
