"""How fast jobs are by their number of GPUs: runs are watched, curves fitted over them, and changes of size weighed."""
