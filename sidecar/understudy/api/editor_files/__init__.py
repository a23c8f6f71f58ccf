"""The files of an editor: that it saved one, which text of an accept a document has, and problems of our own files."""
