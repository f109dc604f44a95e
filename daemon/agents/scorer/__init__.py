"""A scheduler for clusters of any size, trained on a site's history: it scores jobs, and nodes on which they fit."""
