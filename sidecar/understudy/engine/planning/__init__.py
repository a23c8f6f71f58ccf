"""Turn a request into a plan: the delegator, the limits, the checks and the prompt."""
