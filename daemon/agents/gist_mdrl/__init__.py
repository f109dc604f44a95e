"""GIST AI-X mDRL (Narantuya et al. 2022, doi:10.32604/cmc.2022.023318): one deep Q agent per partition."""
