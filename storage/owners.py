"""The user and account that hold a job's resources, and its kind of work: the same words for every scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

SourceName = Annotated[str, Field(exclude=True)]
"""Name of the source that lists something, which answers of the API leave out."""


class OwnerKind(StrEnum):
    """What kind of work a job is, which decides what its owner can do about idle GPUs."""

    BATCH = "batch"
    """It ends by itself."""
    INTERACTIVE = "interactive"
    """Somebody sits before it: a shell, a notebook."""
    SERVICE = "service"
    """It never ends by itself; what it does not need is given back by scaling it down."""

    @property
    def ends(self) -> bool:
        """Tell whether it ends by itself."""
        return self is not OwnerKind.SERVICE


@dataclass(frozen=True, slots=True)
class Holder:
    """The user and account in whose name resources are held; '' is unknown."""

    user: str = ""
    account: str = ""
    """What is charged: an account, a project, a namespace."""
