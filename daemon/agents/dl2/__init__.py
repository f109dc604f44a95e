"""DL2 on a site's history: sizes of elastic jobs, given step by step by a network, as the paper's parameter servers."""
