"""The GIST AI-X paper (Narantuya et al. 2022): its agents are trained as it describes and its claims checked."""
