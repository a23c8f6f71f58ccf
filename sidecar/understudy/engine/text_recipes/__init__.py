"""Text recipes in the caller's process: files become a prompt, and the answer a text or one file. No worker, no git."""
