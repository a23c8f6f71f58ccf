"""The project under judgement: its interpreter, what that imports, and its command lines."""
