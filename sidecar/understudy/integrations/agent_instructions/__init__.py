"""Tell other agents when and how to delegate: a skill, or a marked block in a file that the user owns."""
