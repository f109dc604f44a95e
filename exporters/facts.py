"""What pages and query answers share: the name of a server, numbers that may be lies, and rows gathered by GPU.

Unmeasured is None: blank sentinels of NVML and DCGM, NaN, infinities and what physics excludes never become a value.
Whether use is in per cent or a share is judged by all GPUs of a server, not by a metric's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .exposition import Samples
from .source import SourceError
from .targets import host_of

_INT32_BLANK = frozenset(range(0x7FFFFFF0, 0x7FFFFFFF + 1))
_FP64_BLANK = frozenset(2.0**47 + offset for offset in range(16))
_INT64_BLANK = float(0x7FFFFFFFFFFFFFF0)
"""All sixteen INT64 sentinels of DCGM are this number once they are a float."""
_LEAST_BLANK, _LEAST_COUNTER_BLANK = float(0x7FFFFFF0), 2.0**47
"""Below these no number is a sentinel, of a gauge and of a 64-bit counter: nearly all are decided at once."""
_MOST_GPU_WATTS = 5_000.0
_MOST_SERVER_WATTS = 200_000.0
_MOST_MEGAHERTZ = 100_000.0
_ROUNDING = 1.1
"""Profiling ratios overshoot 1 a little; more than this is a lie."""

_NOBODY = frozenset(("localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"))
"""What every server calls itself, and none of a scheduler's nodes is called."""

Reader = Callable[[float], float | None]


class NamelessServer(SourceError):
    """A server that goes by a name that every server has."""


def measured(value: float) -> float | None:
    """Return a value that is finite, not negative and no blank sentinel; None otherwise."""
    if 0.0 <= value < _LEAST_BLANK:
        return value
    if not math.isfinite(value) or value < 0 or value >= _INT64_BLANK or value in _FP64_BLANK or value in _INT32_BLANK:
        return None
    return value


def _counted(value: float, per_unit: float) -> float | None:
    """Return a counter in our unit; the INT32 sentinels are ordinary values of a 64-bit counter."""
    if 0.0 <= value < _LEAST_COUNTER_BLANK:
        return value / per_unit
    if not math.isfinite(value) or value < 0 or value >= _INT64_BLANK or value in _FP64_BLANK:
        return None
    return value / per_unit


def joules_of_millijoules(value: float) -> float | None:
    """Return joules."""
    return _counted(value, 1e3)


def joules_of_microjoules(value: float) -> float | None:
    """Return joules."""
    return _counted(value, 1e6)


def seconds_of_nanoseconds(value: float) -> float | None:
    """Return seconds."""
    return _counted(value, 1e9)


def gpu_watts(value: float) -> float | None:
    """Return the watts of a GPU, or a limit of them; 0 and more than any GPU can draw are unmeasured.

    A GPU that is there draws some: drivers with a fault report 0 W of one that works.
    """
    watts = measured(value)
    return watts if watts and watts <= _MOST_GPU_WATTS else None


def gpu_celsius(value: float) -> float | None:
    """Return a temperature in degrees Celsius, above 0: exporters report 0 of a sensor that is not there."""
    return measured(value) or None


def gpu_memory(used: float | None, total: float | None) -> tuple[float | None, float | None]:
    """Return the memory in use and in all, in bytes; of a GPU with none at all both are unmeasured.

    Drivers report so where GPU and processor share their memory.
    """
    return (None, None) if total == 0 else (used, total)


def watts_of_milliwatts(value: float) -> float | None:
    """Return the watts of a GPU, from milliwatts; the INT32 sentinels are beyond what a GPU can draw."""
    return gpu_watts(value / 1000) if math.isfinite(value) and value >= 0 else None


def hertz_of_megahertz(value: float) -> float | None:
    """Return hertz."""
    megahertz = measured(value)
    return None if megahertz is None or megahertz > _MOST_MEGAHERTZ else megahertz * 1e6


def server_watts(value: float) -> float | None:
    """Return the wall watts of a server, above 0; a BMC that reports 0 W measures nothing."""
    watts = measured(value)
    return watts if watts and watts <= _MOST_SERVER_WATTS else None


def bytes_of_mebibytes(value: float) -> float | None:
    """Return bytes."""
    mebibytes = measured(value)
    return None if mebibytes is None else mebibytes * 2**20


def ratio(value: float) -> float | None:
    """Return a share of 0..1."""
    share = measured(value)
    return None if share is None or share > _ROUNDING else min(share, 1.0)


def ratio_of_percent(value: float) -> float | None:
    """Return a share of 0..1 from 0..100."""
    return ratio(value / 100) if measured(value) is not None else None


def node_name(series: Mapping[str, str], target: Mapping[str, str], instance: str = "") -> str:
    """Return the server's name: the target's ``node``, else the page's host name, else the host that was read.

    Raises:
        NamelessServer: nobody has given it a name of its own.
    """
    if given := target.get("node"):
        return given
    name = reported_name(series, instance)
    if is_nobody(name):
        raise NamelessServer(f"the server is called {name}, which is no node's name: give this target the label `node`")
    return name


NAME_LABELS = ("node", "node_name", "Hostname", "hostname")
"""Labels by which a series names its server, the first that it has."""


def reported_name(series: Mapping[str, str], instance: str = "") -> str:
    """Return the server's name as its page has it, else the host that was read."""
    for label in NAME_LABELS:
        if name := series.get(label):
            return name
    return host_of(instance or series.get("instance", ""))


def is_nobody(name: str) -> bool:
    """Tell whether a server goes by what every server calls itself."""
    return name.lower() in _NOBODY


GpuUse = tuple[float, float | None, float | None]
"""The number of one GPU, with its watts and power limit."""


def of_percent(uses: Iterable[GpuUse]) -> list[float | None]:
    """Return the use of each GPU of one server as a share of 0..1, where whole per cent is usual (NVML, DCGM, AMD).

    Numbers none of which is above 1 are shares where one of them is a fraction, or where one that shows 1 draws more
    than half its limit. A fraction of one beside whole per cent is unmeasured: nobody knows which of the two it is.
    """
    rows = list(uses)
    numbers = [number for number, _, _ in rows]
    fractions = [number for number in numbers if number % 1]
    if max(numbers, default=0.0) > 1:
        averaged = any(number > 1 for number in fractions)
        return [None if 0 < number < 1 and not averaged else ratio(number / 100) for number in numbers]
    busy = any(number == 1 and watts is not None and limit and watts > limit / 2 for number, watts, limit in rows)
    return [ratio(number if fractions or busy else number / 100) for number in numbers]


def of_shares(uses: Iterable[GpuUse]) -> list[float | None]:
    """Return the use of each GPU of one server, where shares are usual; with a number far above 1 all are per cent."""
    numbers = [number for number, _, _ in uses]
    per = 100 if max(numbers, default=0.0) > 1.1 else 1
    return [ratio(number / per) for number in numbers]


NodeOf = Callable[[Mapping[str, str]], str]
"""Return the server that a row's labels name."""
TimeOf = Callable[[Mapping[str, str]], float | None]
"""Return when a row was measured; None leaves it out."""


@dataclass(slots=True)
class GpuRow:
    """The values of one GPU, or of one part of it, under one identity."""

    node: str
    time_s: float
    labels: dict[str, str]
    """The labels of all its rows; of one that differs between them the first."""
    key: Hashable = None
    """Which GPU, or part of it, it is within its server."""
    values: dict[str, float] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)

    def take(self, labels: Mapping[str, str], name: str, value: float | None) -> None:
        """Take in a row: of a label that differs the first counts, of a value the largest."""
        for label, text in labels.items():
            self.labels.setdefault(label, text)
        self.jobs.update(jobs(labels))
        if value is not None and value >= self.values.get(name, 0.0):
            self.values[name] = value

    def join(self, other: GpuRow) -> None:
        """Take in rows that are of the same GPU."""
        self.jobs |= other.jobs
        self.labels = {**other.labels, **self.labels}
        for name, value in other.values.items():
            self.values[name] = max(value, self.values.get(name, 0.0))

    def first(self, names: Iterable[str]) -> float | None:
        """Return the first of these values that was measured."""
        return next((self.values[name] for name in names if name in self.values), None)

    def use_of(self, name: str, power: str, limit: str) -> GpuUse | None:
        """Return a number for the use of the GPU with its watts and limit, where there is a number."""
        number = self.values.get(name)
        return None if number is None else (number, self.values.get(power), self.values.get(limit))


def gather(samples: Samples, metrics: Mapping[str, Reader], names: Mapping[str, str],
           key_of: Callable[[str, Mapping[str, str]], Hashable | None], node_of: NodeOf,
           time_of: TimeOf, called: Callable[[Mapping[str, str]], str] = lambda labels: "") -> list[GpuRow]:
    """Return the rows of each GPU; of a value that stands twice the largest counts.

    ``names`` gives a metric the name that it bears here; ``key_of`` the GPU within its server, from the metric's name
    and labels, None for rows that are of no GPU; ``called`` what tells GPUs apart that two exporters count alike.
    """
    rows_by_gpu: dict[tuple[str, Hashable], dict[tuple[str, str], GpuRow]] = {}
    for (metric, labels), number in samples:
        read, key = metrics.get(metric), key_of(metric, labels)
        if read is None or key is None:
            continue
        node, time_s, name = node_of(labels), time_of(labels), called(labels)
        if time_s is None:
            continue
        same = rows_by_gpu.setdefault((node, key), {})
        # What two exporters report without such a name is not laid over one another.
        place = (name, "") if name else ("", labels.get("instance", ""))
        row = same.get(place)
        if row is None:
            row = same[place] = GpuRow(node, time_s, {}, key)
        row.take(labels, names.get(metric, metric), read(number))
    return [row for same in rows_by_gpu.values() for row in _distinct(same)]


def _distinct(same: dict[tuple[str, str], GpuRow]) -> Iterable[GpuRow]:
    """Return the GPUs of one number: rows without a name are the only GPU's of their exporter, or nobody's."""
    if len(same) == 1:
        return same.values()
    named = [row for (name, _), row in same.items() if name]
    others = []
    for (name, instance), row in same.items():
        namesakes = [] if name else [named_row
                                     for named_row in named if named_row.labels.get("instance", "") == instance]
        if len(namesakes) == 1:
            namesakes[0].join(row)
        elif not name and not namesakes:
            others.append(row)
    return (*named, *others)


def judge_use(rows: Iterable[GpuRow], name: str, power: str, limit: str,
              judge: Callable[[Iterable[GpuUse]], list[float | None]]) -> None:
    """Put shares of 0..1 in the place of what the rows report of their use, server by server."""
    servers: dict[str, list[tuple[GpuRow, GpuUse]]] = {}
    for row in rows:
        use = row.use_of(name, power, limit)
        if use is not None:
            servers.setdefault(row.node, []).append((row, use))
    for uses in servers.values():
        for (row, _), share in zip(uses, judge(use for _, use in uses), strict=True):
            if share is None:
                del row.values[name]
            else:
                row.values[name] = share


_PODS = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"))


def jobs(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the Slurm job and the pod (``namespace/pod``) that a row names."""
    if job := labels.get("hpc_job") or labels.get("job_id"):
        yield job
    for pod_name, namespace in _PODS:
        pod = labels.get(pod_name)
        # Without honor_labels, `pod` is the exporter's own and the workload's is `exported_pod`.
        if pod and "dcgm-exporter" not in pod and "metrics-exporter" not in pod and "metric-exporter" not in pod:
            yield f"{labels.get(namespace, '')}/{pod}"
            return
