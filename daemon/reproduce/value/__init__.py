"""Comparison of policies on public traces with the scheduler, a random baseline, oracles and a lower bound."""
