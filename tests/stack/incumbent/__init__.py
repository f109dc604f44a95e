"""A real Slurm with priority/multifactor and sched/backfill, to compare the replayed incumbent with."""
