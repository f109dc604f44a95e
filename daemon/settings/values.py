"""Kinds of values that several sections share, and how names are checked that only other rooms know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import time
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from ...storage.durations import Duration, seconds

__all__ = ["AgentName", "ApplicationName", "Checks", "Duration", "Limit", "LocalTime", "PolicyName", "Ratio",
           "Seconds", "ServingPolicy", "StrictSettings", "UtcTime", "Watts", "Weight", "WorkloadName", "ZoneTime"]

Checks = Mapping[str, Callable[[str], object]]
"""What raises ValueError for a name that nobody knows, by what is named; given to pydantic as its context."""

Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0, allow_inf_nan=False)]
Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[float, Field(ge=1, allow_inf_nan=False)]
"""Of a ratio to the incumbent."""


class StrictSettings(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _time_of_day(value: object) -> object:
    """Refuse what YAML makes of 12:30 without quotation marks: 750."""
    if isinstance(value, str | time):
        return value
    raise ValueError('a time of day is written in quotation marks: "03:00"')


def _without_offset(zone: str) -> AfterValidator:
    """Return a validator that refuses 22:00Z and 22:00+02:00, which compare with no time that the clock tells."""
    def plain(value: time) -> time:
        if value.tzinfo is not None:
            raise ValueError(f'a time of day is {zone} here, written without an offset: "03:00"')
        return value

    return AfterValidator(plain)


UtcTime = Annotated[time, BeforeValidator(_time_of_day), _without_offset("UTC")]
LocalTime = Annotated[time, BeforeValidator(_time_of_day), _without_offset("the machine's local time")]
ZoneTime = Annotated[time, BeforeValidator(_time_of_day), _without_offset("local time in notices.timezone")]
"""In that zone, or the machine's where it is left out."""


def named(what: str) -> AfterValidator:
    """Return a validator that asks the validation context whether a name is known; settings made in code have none."""
    def known(name: str, info: ValidationInfo) -> str:
        checks: Checks | None = info.context
        if checks is not None:
            checks[what](name)
        return name

    return AfterValidator(known)


PolicyName = Annotated[str, named("policy")]
"""order+placement+backfill."""
ServingPolicy = Annotated[str, named("serving policy")]
"""A policy that needs nothing which nobody knows in advance."""
AgentName = Annotated[str, named("agent")]
ApplicationName = Annotated[str, named("application")]
"""An application whose speed by placement was measured."""
WorkloadName = Annotated[str, named("workload")]
"""A model or task whose sensitivity to CPUs and memory is known."""
