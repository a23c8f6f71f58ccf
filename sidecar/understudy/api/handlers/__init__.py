"""One function per request of the contract; frontends do the transport, ``engine`` makes the decisions."""
