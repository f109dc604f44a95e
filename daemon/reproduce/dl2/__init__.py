"""Reproduction of DL2 (Peng et al., arXiv 1909.06040): which elastic job gets the next worker or parameter server."""
