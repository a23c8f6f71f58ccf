"""What requests and answers of every dialect contain: options, calls of tools, the pieces of a streamed answer."""
