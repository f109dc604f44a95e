"""DL2 on a site's history: a network sizes elastic jobs step by step, as in the paper."""
