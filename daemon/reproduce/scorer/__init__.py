"""Evaluation of the scorer agent on generated and real sites that it was not trained on."""
