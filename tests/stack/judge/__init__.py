"""Slurm as the judge of advice: random clusters and jobs on a real Slurm, and what it does with what was advised."""
