"""Reproduction of MAIFS (Li et al., TPDS 36(3), 2025): joint decisions on placement and fungible allocation."""
