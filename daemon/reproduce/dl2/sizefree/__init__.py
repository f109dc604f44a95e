"""The size-free variant: one scorer for every job, evolution strategies on whole replays, and looking ahead."""
