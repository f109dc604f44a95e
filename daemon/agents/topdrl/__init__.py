"""TopDRL on a site's history: a network picks the next job, or waits, and a heuristic places it close together."""
