"""How often each cycle runs."""

from __future__ import annotations

from .values import Duration, StrictSettings


class Cycles(StrictSettings):
    """How often each cycle runs."""

    scrape: Duration = 15.0
    jobs: Duration = 15.0
    assess: Duration = 15.0
    advise: Duration = 30.0
    record: Duration = 60.0
    retention: Duration = 3600.0
    counterfactual: Duration = 3600.0
    """How often the time since is replayed under the incumbent and the active policy."""
