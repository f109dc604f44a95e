"""Reproduction of TopDRL (Ayadi et al., JPDC 204, 2025): a trained choice of the next job, or of waiting."""
