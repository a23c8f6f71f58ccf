"""Understudy: hand work to cheaper models and other coding agents, and get it back verified and reviewable."""

__version__ = "0.1.0"
