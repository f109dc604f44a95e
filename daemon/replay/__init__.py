"""Deterministic replay of a cluster: state, engine, speed, power, outcome. Knows no policy and no agent."""
