"""Policies: which job goes first, where, and what may pass a job that has to wait.

policy = named("limit-aged+best-fit+easy")
actions = policy.decide(state)          # the same call live and in replay
"""

from .registry import Heuristic, named, names

__all__ = ["Heuristic", "named", "names"]
