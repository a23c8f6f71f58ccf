"""HTTP to model servers: the client, event streams, and what a refusal means."""
