"""How the scorer does on regimes and traces that it was not made for: ``idlewatt reproduce scorer``."""
