"""Fig. 6 as it was made, on a real Slurm: the paper's episodes with seconds for hours, placed through ``follow``."""
