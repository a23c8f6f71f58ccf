"""The attempts of one run, each when the campaign asks for it.

``run_attempts`` says whose turn it is and connects the agent; ``agent_conversation`` is what the agent knows.
"""
