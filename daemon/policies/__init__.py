"""Policies: which job goes first, where, and what may pass a job that has to wait.

policy = named("limit-aged+best-fit+easy")
actions = policy.decide(state)          # live or replayed, it cannot tell
"""

from .registry import Heuristic, named, names

__all__ = ["Heuristic", "named", "names"]
