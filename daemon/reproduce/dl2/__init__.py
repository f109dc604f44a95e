"""Elastic jobs after DL2 (Peng et al., arXiv 1909.06040): which job gets the next worker or parameter server."""
