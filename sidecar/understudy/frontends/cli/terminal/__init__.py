"""The user's terminal: size, colours, pager, editor, questions."""
