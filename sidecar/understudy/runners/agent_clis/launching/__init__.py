"""Find an agent's program, and refuse flags that would change what Understudy relies on."""
