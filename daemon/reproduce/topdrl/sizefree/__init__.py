"""The size-free form: one scorer for every job, what the leaves look like pooled, evolution strategies on episodes."""
