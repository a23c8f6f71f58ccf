"""One delegation as data: what was asked, what happened, and what it cost."""
