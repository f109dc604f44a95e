"""What the exporters of all GPU vendors have in common: rows gathered by GPU, and whose work these name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .exposition import Samples
from .facts import Reader, Told

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
    values: dict[str, float] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)

    def first(self, names: Iterable[str]) -> float | None:
        """Return the first of these values that was measured."""
        return next((self.values[name] for name in names if name in self.values), None)

    def told(self, name: str, power: str, limit: str) -> Told | None:
        """Return a number for the use of the GPU with its watts and limit, where there is a number."""
        number = self.values.get(name)
        return None if number is None else (number, self.values.get(power), self.values.get(limit))


def gather(samples: Samples, metrics: Mapping[str, Reader], names: Mapping[str, str],
           key_of: Callable[[str, Mapping[str, str]], Hashable | None], node_of: NodeOf,
           time_of: TimeOf) -> list[GpuRow]:
    """Return the rows of each GPU; of a value that stands twice the largest counts.

    ``names`` gives a metric the name that it bears here; ``key_of`` the GPU within its server, from the metric's name
    and labels, None for rows that are of no GPU.
    """
    found: dict[Hashable, GpuRow] = {}
    for (metric, labels), number in samples:
        read, key = metrics.get(metric), key_of(metric, labels)
        if read is None or key is None:
            continue
        node, time_s = node_of(labels), time_of(labels)
        if time_s is None:
            continue
        row = found.get((node, key))
        if row is None:
            row = found[node, key] = GpuRow(node, time_s, {})
        for label, text in labels.items():
            row.labels.setdefault(label, text)
        row.jobs.update(jobs(labels))
        value, name = read(number), names.get(metric, metric)
        if value is not None and value >= row.values.get(name, 0.0):
            row.values[name] = value
    return list(found.values())


def judge_use(rows: Iterable[GpuRow], name: str, power: str, limit: str,
              judge: Callable[[Iterable[Told]], list[float | None]]) -> None:
    """Put shares of 0..1 in the place of what the rows tell of their use, server by server."""
    servers: dict[str, list[tuple[GpuRow, Told]]] = {}
    for row in rows:
        told = row.told(name, power, limit)
        if told is not None:
            servers.setdefault(row.node, []).append((row, told))
    for own in servers.values():
        for (row, _), share in zip(own, judge(told for _, told in own), strict=True):
            if share is None:
                del row.values[name]
            else:
                row.values[name] = share


def jobs(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the Slurm job and the pod (``namespace/pod``) that a row names."""
    if job := labels.get("hpc_job") or labels.get("job_id"):
        yield job
    for prefix, pod_name, namespace in (("exported_", "pod", "namespace"), ("", "pod", "namespace"),
                                        ("", "pod_name", "pod_namespace")):
        pod = labels.get(prefix + pod_name)
        # Without honor_labels, `pod` is the exporter's own and the workload's is `exported_pod`.
        if pod and "dcgm-exporter" not in pod and "metrics-exporter" not in pod and "metric-exporter" not in pod:
            yield f"{labels.get(prefix + namespace, '')}/{pod}"
            return
