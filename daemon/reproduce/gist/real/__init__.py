"""Fig. 6 on a real Slurm: the paper's episodes with a second for each hour, placed through ``follow``."""
