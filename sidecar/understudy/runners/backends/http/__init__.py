"""HTTP to model servers: clients, with and without an event loop, what a refusal means, and event streams."""
