"""The size-invariant agent: one scorer for all jobs, pooled inputs of leaf switches, and evolution strategies."""
