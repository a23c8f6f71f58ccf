"""The project under judgement: its interpreter, what that imports, and files that git does not show."""
