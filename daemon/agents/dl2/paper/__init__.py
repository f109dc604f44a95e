"""The setting of the DL2 paper, and its policies beside ours."""
