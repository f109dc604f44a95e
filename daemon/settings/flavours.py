"""What users may ask for under a name: the flavours of a cluster, as Table 2 of the GIST AI-X paper lists them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from .values import Duration, StrictSettings

Named = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64)]


class FlavourSettings(StrictSettings):
    """A named request: a job is of the smallest flavour that allows what it asks for."""

    name: Named
    gpus: Annotated[int, Field(ge=1)]
    """Most GPUs of such a job, over all its nodes."""
    partition: str = ""
    """The partition whose jobs may have it; '' for every one."""
    gpu_model: str = ""
    """The scheduler's type name of the GPUs (``a100``); '' for any."""
    limit: Duration | None = None
    """Longest time limit of such a job; null allows any, and none at all."""


def distinct(flavours: tuple[FlavourSettings, ...]) -> tuple[FlavourSettings, ...]:
    """Return the flavours, or raise a fault at the place of each name that another one has already."""
    first: dict[str, int] = {}
    faults = []
    for number, flavour in enumerate(flavours):
        if first.setdefault(flavour.name, number) != number:
            faults.append(InitErrorDetails(type=PydanticCustomError("two_flavours", (
                "flavours[{first}] is called {name} already: give each its own name"),
                {"first": first[flavour.name], "name": repr(flavour.name)}), loc=(number, "name"), input=flavour.name))
    if faults:
        raise ValidationError.from_exception_data("flavours", faults)
    return flavours
