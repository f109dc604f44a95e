"""The table of metrics, in a file for each theme: each field of ``Published`` is a metric, ``idlewatt_`` + the field.

To add a metric, add a field to the class of its theme. Units are in the names: W, J, s, bytes, ratios 0..1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .advice import AdviceMetrics
from .declared import PREFIX, Declared
from .gpus import GpuMetrics
from .learning import LearningMetrics
from .own import OwnMetrics
from .power import PowerMetrics


@dataclass(frozen=True)
class Published(OwnMetrics, LearningMetrics, AdviceMetrics, GpuMetrics, PowerMetrics):
    """Everything on our page at one moment. Absent is unmeasured; the classes, states and causes of every partition
    in ``partitions`` are published even when nothing is in them, so that a rule never divides by an absent series.
    """

    partitions: tuple[str, ...] = ()
    """The partitions that have been assessed. No metric by itself."""


METRICS: tuple[Declared, ...] = tuple(Declared(name=PREFIX + item.name, **item.metadata)
                                      for item in fields(Published) if item.metadata)
"""The catalogue, in the order of the page: code, tests and documentation all read it."""
