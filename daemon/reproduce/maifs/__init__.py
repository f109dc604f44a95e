"""Placement and fungible allocation decided together, after MAIFS (Li et al., TPDS 36(3), 2025)."""
