"""Training speeds of Pollux' six applications, from the measured tables of its artifact (Qiao et al., OSDI'21)."""

from __future__ import annotations

import csv
import io
import math
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...replay.arrays import Floats
from ..failures import ReproductionError

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator

Placement = tuple[int, ...]
"""GPUs on each node, in the order in which the allocation names the nodes."""

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
TABLED_NODES = 16
EPSILON = 1e-8


class BatchSplit(NamedTuple):
    """A batch over GPUs: ``gpus * atomic * (accumulated + 1)`` samples a step."""

    atomic: int
    accumulated: int


class Archive:
    """The artifact's tar, read in place; nothing is unpacked to disk."""

    def __init__(self, path: Path) -> None:
        try:
            with tarfile.open(path) as tar:
                files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
                self._files = {name.removeprefix("./"): file.read() for name, file in files.items() if file}
        except (tarfile.TarError, EOFError) as error:
            raise ReproductionError(f"{path}: the archive of Pollux's artifact cannot be read: {error}") from error

    def names(self, prefix: str) -> list[str]:
        """Return the paths that begin with a prefix."""
        return [name for name in self._files if name.startswith(prefix)]

    def text(self, name: str) -> str:
        """Return the text of a file."""
        return self._files[name].decode()

    def rows(self, name: str) -> Iterator[dict[str, str]]:
        """Yield the rows of a CSV file."""
        return csv.DictReader(io.StringIO(self.text(name)))


def canonical(placement: Placement) -> str:
    """Return the name of a placement in the tables: its lexicographically smallest rotation, as digits."""
    counts = tuple(count for count in placement if count)
    return "".join(map(str, min(counts[turn:] + counts[:turn] for turn in range(len(counts)))))


@dataclass
class Application:
    """The tables of one application."""

    name: str
    placements: list[tuple[str, int, float, float]]
    """(placement, local batch, step s, synchronisation s)."""
    scalability: list[tuple[int, int, int, float, float]]
    """(nodes, GPUs, local batch, step s, synchronisation s)."""
    validation: dict[int, dict[str, Floats]]
    """Columns by epoch, for each total batch."""
    _times: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def load(cls, archive: Archive, name: str) -> Application:
        """Read the tables of one application."""
        folder = f"traces/{name}/"
        validation = {int(file.rpartition("-")[2].removesuffix(".csv")): _columns(list(archive.rows(file)))
                      for file in archive.names(f"{folder}validation-")}
        return cls(name,
                   [(row["placement"], int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"]))
                    for row in archive.rows(f"{folder}placements.csv")],
                   [(int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"]), float(row["step_time"]),
                     float(row["sync_time"])) for row in archive.rows(f"{folder}scalability.csv")],
                   dict(sorted(validation.items())))

    @cached_property
    def smallest_batch(self) -> int:
        """Return B0, the smallest validated total batch."""
        return min(self.validation)

    @cached_property
    def largest_batch(self) -> int:
        """Return the largest validated total batch."""
        return max(self.validation)

    @cached_property
    def smallest_local(self) -> int:
        """Return the smallest measured batch of a GPU."""
        return min(local for _, local, _, _ in self.placements)

    @cached_property
    def largest_local(self) -> int:
        """Return the largest measured batch of a GPU; yolov3's is fixed as in the artifact."""
        return 8 if self.name == "yolov3" else max(local for _, local, _, _ in self.placements)

    @cached_property
    def boundaries(self) -> Floats:
        """Return the progress at which each epoch ends, from 0: the minimum over all validated batches."""
        least = np.min([columns["progress"][:EPOCHS[self.name]] for columns in self.validation.values()], axis=0)
        return np.concatenate(([0.0], least))

    def validated(self, batch: float, epoch: int, column: str) -> float:
        """Return a validation column at a total batch, linear between the validated ones."""
        return float(np.interp(batch, list(self.validation), [table[column][epoch]
                                                              for table in self.validation.values()]))

    def split(self, batch: int, gpus: int, *, lone_accumulates: bool = False) -> BatchSplit:
        """Divide a batch; a lone GPU needs two micro-batches to estimate the noise of gradients."""
        local = math.ceil(batch / gpus - EPSILON)
        accumulated = math.ceil(local / self.largest_local - EPSILON) - 1
        if gpus == 1 and (lone_accumulates or batch > self.smallest_batch):
            accumulated = max(accumulated, 1)
        atomic = math.ceil(local / (accumulated + 1) - EPSILON)
        return BatchSplit(min(atomic, self.largest_batch // (gpus * (accumulated + 1))), accumulated)

    def step_s(self, placement: Placement, split: BatchSplit) -> float:
        """Return the seconds of one optimiser step."""
        step, sync = self.times(placement, split.atomic)
        return step + split.accumulated * (step - sync)

    def goodput(self, placement: Placement, split: BatchSplit, epoch: int) -> float:
        """Return progress per second: the gain of a step, from its gradient noise, over its time."""
        batch = sum(placement) * split.atomic * (split.accumulated + 1)
        scale = batch / self.smallest_batch
        squared, variance = (self.validated(batch, epoch, column) for column in ("grad_sqr", "grad_var"))
        gain = (variance + squared) / (variance / scale + squared)
        return gain / self.step_s(placement, split)

    def times(self, placement: Placement, local: int) -> tuple[float, float]:
        """Return the (step, synchronisation) seconds of a placement: measured, or from the triangulation."""
        key = canonical(placement), local
        if key not in self._times:
            self._times[key] = self._measured(*key) or self._triangulated(placement, local)
        return self._times[key]

    def _measured(self, placement: str, local: int) -> tuple[float, float] | None:
        if placement not in self._tabled:
            return None
        batches, steps, syncs = self._tabled[placement]
        if not batches[0] <= local <= batches[-1]:
            raise ValueError(f"{self.name} was never measured with {local} samples a GPU on {placement}")
        return float(np.interp(local, batches, steps)), float(np.interp(local, batches, syncs))

    @cached_property
    def _tabled(self) -> dict[str, tuple[Floats, Floats, Floats]]:
        tabled: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for placement, local, step, sync in self.placements:
            tabled[placement].append((local, step, sync))
        return {placement: tuple(np.array(sorted(rows)).T) for placement, rows in tabled.items()}

    def _triangulated(self, placement: Placement, local: int) -> tuple[float, float]:
        nodes = min(sum(count > 0 for count in placement), TABLED_NODES)
        step, sync = self._interpolator(nodes, sum(placement), local).ravel()
        return float(step), float(sync)

    @cached_property
    def _interpolator(self) -> LinearNDInterpolator:
        """Return the piecewise-linear surface over (nodes, GPUs, local batch); the order of the points matters."""
        from scipy.interpolate import LinearNDInterpolator  # 0.3 s that only this needs

        grouped: dict[tuple[int, int, int], list[tuple[float, float]]] = defaultdict(list)
        for placement, local, step, sync in self.placements:
            grouped[len(placement), sum(map(int, placement)), local].append((step, sync))
        points = [(*key, *np.mean(grouped[key], axis=0)) for key in sorted(grouped)] + self.scalability
        table = np.array(points, np.float64)
        return LinearNDInterpolator(table[:, :3], table[:, 3:])


def _columns(rows: list[dict[str, str]]) -> dict[str, Floats]:
    return {column: np.array([float(row[column]) for row in rows])
            for column in ("progress", "iteration", "grad_sqr", "grad_var")}
