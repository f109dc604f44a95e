"""The scorer agent on made-up and real sites that it was not trained on."""
