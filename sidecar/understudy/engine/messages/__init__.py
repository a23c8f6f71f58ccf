"""What the user says to an agent that works: from the request to the agent."""
