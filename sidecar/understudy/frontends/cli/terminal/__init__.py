"""The user's terminal: size, colours, editor, questions."""
