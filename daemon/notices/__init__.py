"""Tells owners and administrators of jobs that waste, carefully: by rules, in stages, once, and written down."""
