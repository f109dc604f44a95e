"""What GPUs did over some time, from a Prometheus that scrapes them: one range query for power, one for activity.

A range costs the server what it holds, so that the step grows with it: an answer never has more than ``most`` points
of a GPU, and one that takes longer than ``PATIENCE_S`` is not waited for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from . import dcgm, nvidia_smi
from .deadline import all_of
from .facts import gpu_watts, ratio
from .fetch import Client
from .prometheus_api import PrometheusConfig, envelope_of
from .source import SourceError

PATIENCE_S = 3.0
"""A page waits for it."""
STEPS_S = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 43200.0, 86400.0)
_AT_ONCE = 16
_TOGETHER = 4
_UUID = re.compile(r"[A-Za-z0-9._:-]{1,80}")
_LARGEST_BYTES = 4 * 2**20
Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class GpuRange:
    """A GPU over some time; None where nothing was measured."""

    watts: Values
    activity: Values

    @property
    def measured(self) -> float:
        """Return the share of the time of which both are known."""
        both = [watts is not None and activity is not None
                for watts, activity in zip(self.watts, self.activity, strict=True)]
        return sum(both) / len(both) if both else 0.0


@dataclass(frozen=True, slots=True)
class GpuRanges:
    """GPUs over some time by their UUID, in steps of ``step_s`` seconds from ``start_s`` on."""

    start_s: float
    step_s: float
    steps: int
    gpus: Mapping[str, GpuRange]


def step_of(span_s: float, least_s: float, most: int) -> float:
    """Return the step in seconds that shows a span in at most ``most`` points: a round one, or whole days."""
    needed = max(least_s, span_s / most)
    return next((step for step in STEPS_S if step >= needed), math.ceil(needed / 86400.0) * 86400.0)


class RangeClient:
    """Asks a Prometheus what GPUs did."""

    def __init__(self, config: PrometheusConfig) -> None:
        self._config = config
        self._client = Client(config.model_copy(update={
            "timeout": min(config.timeout, PATIENCE_S), "max_body_bytes": min(config.max_body_bytes, _LARGEST_BYTES)}),
            accept="application/json")

    def read(self, uuids: Sequence[str], since_s: float, until_s: float, most: int) -> GpuRanges:
        """Return what these GPUs did in [since, until) in at most ``most`` steps; ``SourceError`` when it cannot."""
        step_s = step_of(until_s - since_s, self._config.cpu_window / 4, most)
        steps = int((until_s - since_s) // step_s)
        if steps < 1:
            raise SourceError(f"it lasted less than {step_s:.0f} s")
        if not all(map(_UUID.fullmatch, uuids)):
            raise SourceError("a GPU without a name that can be queried")
        some = [uuids[first:first + _AT_ONCE] for first in range(0, len(uuids), _AT_ONCE)]
        calls = [partial(self._ask, query(self._matchers(part), step_s), since_s, step_s, steps)
                 for query in (power_query, activity_query) for part in some]
        answers = all_of("ranges", calls, _TOGETHER)
        watts, activity = ({uuid: values for answer in half for uuid, values in answer.items()}
                           for half in (answers[:len(some)], answers[len(some):]))
        nothing = (None,) * steps
        return GpuRanges(since_s, step_s, steps, {uuid: GpuRange(
            tuple(None if value is None else gpu_watts(value) for value in watts.get(uuid, nothing)),
            tuple(None if value is None else ratio(value) for value in activity.get(uuid, nothing)))
            for uuid in uuids})

    def close(self) -> None:
        """Release connections."""
        self._client.close()

    def _matchers(self, uuids: Sequence[str]) -> tuple[str, str]:
        """Return the matchers of these GPUs as DCGM and as nvidia_gpu_exporter name them, which leaves out ``GPU-``."""
        more = f", {self._config.matchers}" if self._config.matchers else ""
        dotted = [uuid.replace(".", "\\\\.") for uuid in uuids]
        bare = "|".join(uuid.removeprefix("GPU-") for uuid in dotted)
        return f'UUID=~"{"|".join(dotted)}"{more}', f'uuid=~"(GPU-)?({bare})"{more}'

    def _ask(self, query: str, since_s: float, step_s: float, steps: int) -> dict[str, Values]:
        # A point of the answer looks back over its step, so that the first stands at the end of the first step.
        first, last = since_s + step_s, since_s + steps * step_s
        parameters = {"query": query, "start": f"{first:.3f}", "end": f"{last:.3f}", "step": f"{step_s:.0f}",
                      "timeout": f"{PATIENCE_S:g}s"}
        url = f"{self._config.url.rstrip('/')}/api/v1/query_range"
        try:
            return dict(parse(self._client.get(url, parameters), first, step_s, steps))
        except ValueError as error:
            raise SourceError(str(error)) from error


def power_query(gpus: tuple[str, str], step_s: float) -> str:
    """Return the PromQL of the mean watts of GPUs by their UUID; MIG instances and shared GPUs repeat them."""
    return " or ".join([*(_mean(name, gpus[0], step_s) for name in _names(*dcgm.POWER)),
                        *(_mean(name, gpus[1], step_s, "uuid") for name in nvidia_smi.POWER)])


def activity_query(gpus: tuple[str, str], step_s: float) -> str:
    """Return the PromQL of the mean activity of whole GPUs, 0..1, by the best fact that there is."""
    whole = f'{gpus[0]}, GPU_I_ID=""'
    *best, resident = dcgm.ACTIVITY
    return " or ".join([*(_mean(name, whole, step_s) for name in _names(*best)),
                        *(_mean(name, whole, step_s) + " / 100" for name in _names(resident)),
                        _mean(nvidia_smi.USE, gpus[1], step_s, "uuid")])


def _names(*names: str) -> list[str]:
    """Return each fact under the names that exporters of all ages give it."""
    return [each for name in names for each in (
        name, *(new for new, old in dcgm.RENAMED.items() if old == name))]


def _mean(name: str, matchers: str, step_s: float, label: str = "UUID") -> str:
    mean = f"max by ({label}) (avg_over_time({name}{{{matchers}}}[{step_s:.0f}s]))"
    return mean if label == "UUID" else f'max by (UUID) (label_replace({mean}, "UUID", "$1", "uuid", "(.*)"))'


def parse(body: bytes, first_s: float, step_s: float, steps: int) -> Iterator[tuple[str, Values]]:
    """Yield the values of each GPU of an answer, None where it has none; raise ``ValueError`` for what is no answer."""
    data = envelope_of(body)
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        raise ValueError("a matrix was expected")
    try:
        for series in data["result"]:
            yield _named(series["metric"]["UUID"]), tuple(_placed(series["values"], first_s, step_s, steps))
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError("a series without UUID or values") from error


def _named(uuid: str) -> str:
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _placed(values: Iterable[tuple[float, str]], first_s: float, step_s: float, steps: int) -> list[float | None]:
    placed: list[float | None] = [None] * steps
    for time_s, text in values:
        place, value = round((float(time_s) - first_s) / step_s), float(text)
        if 0 <= place < steps and math.isfinite(value):
            placed[place] = value
    return placed
