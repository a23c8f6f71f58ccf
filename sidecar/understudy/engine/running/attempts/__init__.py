"""The attempts of one run, each when the campaign asks for it.

``run_attempts`` makes them, ``candidate_choice`` says whose turn it is; ``single_attempt`` connects one agent,
``agent_conversation`` is what it knows, ``run_budget`` what earlier attempts spent; ``checkpoints`` commits their work.
"""
