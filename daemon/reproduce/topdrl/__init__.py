"""TopDRL (Ayadi et al., JPDC 204, 2025): a learned choice of the next job, or of waiting, and GPUs close together."""
