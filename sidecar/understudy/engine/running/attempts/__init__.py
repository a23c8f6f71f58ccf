"""The attempts of one delegation: candidates are tried one after another until one finishes.

``attempt_loop`` tries them, ``candidate_choice`` says which is next and ``failure_policy`` whether there is one;
``single_attempt`` makes one attempt, ``agent_conversation`` is what its agent knows, ``spent_limits`` what earlier
attempts left of its limits; ``checkpoints`` commits what it did.
"""
