"""Policies whose choice is learned from a history; they advise only once they have earned it."""
