"""From when on the daemon calls what it knows degraded."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .values import Ratio, StrictSettings


class DegradedSettings(StrictSettings):
    """From when on the daemon calls what it knows degraded."""

    targets: Ratio = 0.05
    """Share of a source's targets that are down, or slow, up to which that is normal; none of nodes out of service."""
    unmeasured: Ratio = 0.05
    """Share of GPUs without fresh readings up to which that is normal."""
    backlog: Annotated[int, Field(ge=0)] = 0
    """Facts waiting for the database up to which that is normal."""
