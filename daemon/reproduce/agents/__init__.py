"""Evaluation of each agent on public traces with published speeds, which it was not designed for."""
