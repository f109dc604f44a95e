"""What one exporter may cost: bounds on its page, as in Prometheus' scrape configuration."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from pydantic import Field

from ..storage.durations import Duration
from .fetch import StrictOptions


class PageError(ValueError):
    """A page is not Prometheus' text format, or beyond its bounds; the message says where."""


class PageLimits(StrictOptions):
    """Bounds on one page; a page beyond one of them is a fault of its target, and nothing of it is taken."""

    sample_limit: int = Field(default=20_000, gt=0, description="Samples of the metrics that are read, on one page.")
    label_limit: int = Field(default=64, gt=0, description="Labels of one sample.")
    label_name_length_limit: int = Field(default=256, gt=0, description="Longest name of a label, in bytes.")
    label_value_length_limit: int = Field(default=2048, gt=0, description="Longest value of a label, in bytes.")
    gpu_limit: int = Field(default=64, gt=0, description="GPUs on one page; raise it where a page speaks for many "
                                                         "servers.")
    max_age: Duration = Field(default=120.0, description="A sample with a timestamp of its own that is older than "
                                                         "this is no reading.")

    def check_labels(self, labels: dict[str, str]) -> None:
        """Raise ``PageError`` where a sample has too many labels, or one too long."""
        if len(labels) > self.label_limit:
            raise PageError(f"a sample with {len(labels)} labels, more than {self.label_limit} (label_limit)")
        for name, value in labels.items():
            if len(name.encode()) > self.label_name_length_limit:
                raise PageError(f"a label whose name has {len(name)} characters (label_name_length_limit)")
            if len(value.encode()) > self.label_value_length_limit:
                raise PageError(f"a label whose value has {len(value)} characters (label_value_length_limit)")


@dataclass(slots=True)
class Look:
    """One page being read: when, until when, and what the samples' own timestamps say."""

    time_s: float
    """Seconds since the epoch at which the page was asked for."""
    due: float = math.inf
    """When it must have been read, on the monotonic clock."""
    oldest_s: float = math.inf
    """The oldest timestamp that a sample bears and that is taken."""
    stale: int = 0
    """Samples left out for their own timestamp."""

    @property
    def read_s(self) -> float:
        """Return the time that readings of this page bear: no sample is younger than it says itself."""
        return min(self.time_s, self.oldest_s)

    def takes(self, timestamp_s: float | None, max_age_s: float) -> bool:
        """Tell whether a sample is fresh by its own timestamp; None has none, and is of now."""
        if timestamp_s is None:
            return True
        # A clock that runs ahead says nothing of a sample's age; NaN compares false.
        if not abs(self.time_s - timestamp_s) <= max_age_s:
            self.stale += 1
            return False
        self.oldest_s = min(self.oldest_s, timestamp_s)
        return True

    def check(self) -> None:
        """Raise ``PageError`` once the time for reading the page has passed."""
        if time.monotonic() > self.due:
            raise PageError("took too long to be read (timeout)")
