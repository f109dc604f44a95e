"""Reproduction of the GIST AI-X paper (Narantuya et al. 2022): training of its agents and a check of its claims."""
