"""Slurm's priority/multifactor: factors, fair-share by account tree, usage that decays, and the order they make."""
