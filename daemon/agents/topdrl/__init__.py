"""TopDRL on a site's history: a network picks the next job, or waits; a heuristic places its GPUs close together."""
