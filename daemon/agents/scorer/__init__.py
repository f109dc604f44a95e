"""A scheduler of any size that learns a site's history: a score for each job, and one for each node it could run on."""
