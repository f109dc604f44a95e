"""Shares of a node: what each job uses of its CPUs and memory, what more would be worth to it, which could give it."""
