"""Durations as people write them in a configuration: ``30s``, ``5m``, ``1h30m``, or a number of seconds."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")


def seconds(value: object) -> object:
    """Return the seconds of a duration such as ``1h30m``; what is no text passes as it is.

    Raises:
        ValueError: the text is no duration.
    """
    if not isinstance(value, str):
        return value
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"{value!r} is not a duration such as 30s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Duration = Annotated[float, BeforeValidator(seconds), Field(gt=0, allow_inf_nan=False)]
"""Seconds, more than none."""
