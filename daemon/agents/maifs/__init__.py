"""MAIFS on a site's history: nodes decide together which job they take, and with how many CPUs and how much memory."""
