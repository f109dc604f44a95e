"""The half of the reader that knows what runs, users, nodes and days took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager

from sqlalchemy import Connection, func, select

from . import energy_prices, energy_queries, finished, schema, timelines, underuse, uses, waste
from .energy_prices import EnergyPrice
from .energy_queries import Dimension, Order, RunFilter, RunRow
from .finished import Finished
from .packed import Window
from .power_classes import PowerClass
from .records import GpuRollup
from .underuse import CauseTally
from .uses import Use
from .values import chunks, words
from .windows import GpuKey


class EnergyReader(ABC):
    """Answers about energy; every method raises ``StoreUnavailable`` when the database cannot be read."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """Return a connection to read by."""

    def runs(self, wanted: RunFilter, order: Order, limit: int, offset: int = 0) -> tuple[tuple[RunRow, ...], int]:
        """Return runs with what they took in an order, the most first, and how many there are in all."""
        with self._reading() as connection:
            return energy_queries.runs(connection, wanted, order, limit, offset)

    def runs_of(self, job_id: str) -> tuple[RunRow, ...]:
        """Return what the runs of a job took, or those of the tasks of an array, the newest first."""
        with self._reading() as connection:
            return energy_queries.runs_of(connection, job_id)

    def energy_of(self, keys: set[tuple[str, float, float]]) -> dict[tuple[str, float, float], RunRow]:
        """Return what some runs took, as far as it is recorded."""
        with self._reading() as connection:
            return energy_queries.of_runs(connection, keys)

    def energy_by(self, by: Dimension, wanted: RunFilter, limit: int | None = None) \
            -> tuple[tuple[str, dict[str, int]], ...]:
        """Return the sums of whole days (UTC) by a dimension, the most wasteful first."""
        with self._reading() as connection:
            return energy_queries.sums_by(connection, by, wanted, limit)

    def energy_by_job(self, wanted: RunFilter, limit: int | None = None) \
            -> tuple[tuple[str, str, dict[str, int]], ...]:
        """Return id, partition and sums of each job, the most wasteful first; of each cluster that has one of an id."""
        with self._reading() as connection:
            return energy_queries.sums_by_job(connection, wanted, limit)

    def energy_prices(self, since_s: float, until_s: float, most: int) -> tuple[EnergyPrice, ...]:
        """Return what a kWh cost and meant in the quarters of hours that begin in [since, until), the newest first."""
        with self._reading() as connection:
            return energy_prices.load(connection, since_s, until_s, most)

    def classes_of(self, run: RunRow, most: int) -> tuple[tuple[Window, dict[PowerClass, int]], ...]:
        """Return the millijoules of a run by class in up to ``most`` windows, as long as windows are kept fine."""
        with self._reading() as connection:
            return tuple(timelines.classes(connection, run, most))

    def held_gpus(self, places: Mapping[str, tuple[int, ...] | None]) -> tuple[GpuKey, ...]:
        """Return UUID, node and index of the GPUs at places: by node their positions, None for all."""
        with self._reading() as connection:
            return timelines.held(connection, places)

    def gpus_of(self, places: Mapping[str, tuple[int, ...] | None], since_s: float, until_s: float, most: int) \
            -> tuple[GpuRollup, ...]:
        """Return what GPUs did in up to ``most`` windows of [since, until); by node their positions, None for all."""
        with self._reading() as connection:
            return timelines.gpus(connection, places, since_s, until_s, most)

    def finished(self, since_s: float, until_s: float) -> tuple[Finished, ...]:
        """Return how jobs fared that ended in [since, until), by partition and flavour."""
        with self._reading() as connection:
            return finished.since(connection, since_s, until_s)

    def watched_until(self, until_s: float) -> float | None:
        """Return the end of the last window of energy that ended by a moment; None where there is none."""
        table = schema.waste.c
        ends = table.start_s + table.seconds
        with self._reading() as connection:
            last_s: float | None = connection.execute(select(func.max(ends)).where(ends <= until_s)).scalar_one()
        return last_s

    def waste_of_nodes(self, since_s: float, until_s: float, most: int) \
            -> tuple[tuple[Window, dict[str, dict[PowerClass, float]]], ...]:
        """Return the joules of nodes by class in up to ``most`` windows that lie within [since, until)."""
        with self._reading() as connection:
            return tuple(waste.by_node(connection, since_s, until_s, most))

    def use_of_run(self, job_id: str, submit_s: float, start_s: float) -> Use | None:
        """Return what a run used of its CPUs and memory; None where that is not known."""
        table = schema.uses.c
        query = select(schema.uses).where(table.job_id == job_id, table.submit_s == submit_s, table.start_s == start_s)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else uses.use_of(row)

    def causes_of_run(self, job_id: str, submit_s: float, start_s: float) -> tuple[CauseTally, ...]:
        """Return why the GPUs of a run were underused, what was seen longest first."""
        table = schema.run_causes.c
        query = select(schema.run_causes).where(table.job_id == job_id, table.submit_s == submit_s,
                                                table.start_s == start_s).order_by(table.gpu_seconds.desc())
        with self._reading() as connection:
            return tuple(map(underuse.tally_of, connection.execute(query)))

    def causes_of(self, keys: set[tuple[str, float, float]]) -> tuple[CauseTally, ...]:
        """Return why the GPUs of some runs were underused, as far as that is recorded."""
        table, found = schema.run_causes, list[CauseTally]()
        with self._reading() as connection:
            for some in chunks(sorted({words(job_id) for job_id, *_ in keys})):
                query = select(table).where(table.c.job_id.in_(some)).order_by(table.c.id)
                found += map(underuse.tally_of, connection.execute(query))
        return tuple(tally for tally in found if tally.run in keys)
