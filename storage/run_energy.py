"""Records what every run took: energy by class, activity, peaks, and the sums by day of users and of nodes.

Windows are added up as they arrive, each once: a window that is written a second time changes nothing. All sums come
from the same shares, so that runs and what nobody holds add up to the cluster, and to the days.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, delete, select, update

from . import energy_prices, schema
from .database import accumulate
from .energy_schema import CLASS_COLUMNS, COST_COLUMNS, NULLABLE_SUMS, SELDOM, SUMS
from .packed import LONGEST_S, Window, pack, put_packed, readable, unpack
from .power_classes import WASTED, PowerClass
from .values import TableRow, chunks, number, thousandths, whole, words

DAY_S = 86400.0
MOST_NAMED = 64
"""Held GPUs up to which those that were never used are kept by name: a larger run would fill the row."""

_RUN_SUMS = (*SUMS, "seen_ms", "shared_ms")
_RUN_PEAKS = ("last_s", "gpus", "power_max_mw", "memory_max_bytes")

_EVERY = object()
"""What was idle before a run was first seen."""

RunKey = tuple[str, float, float]
"""Job id, submission and start."""


@dataclass(frozen=True, slots=True)
class EnergyShare:
    """What one run took of one node over one window; without a job, what nobody held, or a user's unknown run did."""

    start_s: float
    seconds: float
    node: str
    partition: str
    joules: Mapping[PowerClass, float]
    job_id: str = ""
    submit_s: float = 0.0
    run_s: float = 0.0
    """Start of the run."""
    user: str = ""
    account: str = ""
    model: str = ""
    gpus: float = 0.0
    """Held of the node; a GPU that two jobs hold counts half for each."""
    seen_seconds: float = 0.0
    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    """Of ``gpu_seconds``, those with activity measured."""
    active_seconds: float = 0.0
    shared_seconds: float = 0.0
    """Of ``gpu_seconds``, those on GPUs that others held too."""
    power_max_watts: float | None = None
    """Of the whole run."""
    memory_max_bytes: float | None = None
    idle: tuple[str, ...] | None = None
    """GPUs of the node (``node:index``) that the run has not used so far; None where that is not known."""
    price_per_kwh: float | None = None
    price_per_gpu_hour: float | None = None
    grams_per_kwh: float | None = None
    """Carbon dioxide that a kWh meant then, g CO2e."""
    currency: str = ""
    """Of the prices."""

    @property
    def run(self) -> RunKey:
        """Return what identifies the run."""
        return words(self.job_id), self.submit_s, self.run_s


@dataclass(slots=True)
class _Total:
    """Sums of one row, in whole units."""

    sums: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(SUMS, 0) | dict.fromkeys(NULLABLE_SUMS))

    def add(self, share: EnergyShare) -> None:
        """Add one share."""
        energy = wasted = 0
        for power_class, joules in share.joules.items():
            part = thousandths(joules) or 0
            self._plus(CLASS_COLUMNS[power_class], part)
            energy += part
            wasted += part if power_class in WASTED else 0
            self._pay(share, power_class, part)
        for name, value in (("energy_mj", energy), ("wasted_mj", wasted),
                            ("gpu_ms", thousandths(share.gpu_seconds)),
                            ("active_ms", thousandths(share.active_seconds)),
                            ("measured_ms", thousandths(share.measured_seconds))):
            self._plus(name, value or 0)
        self._tell(share, energy)

    def _pay(self, share: EnergyShare, power_class: PowerClass, part: int) -> None:
        """Add what the energy of a class cost, so that classes add up to the whole to the millionth."""
        if share.price_per_kwh is None or not part:
            return
        # Millijoules to kWh is 3.6e9, the currency to its millionths 1e6.
        cost = round(part * share.price_per_kwh / 3600)
        for name, value in (("priced_mj", part), ("cost_micro", cost), (COST_COLUMNS[power_class], cost),
                            ("wasted_cost_micro", cost if power_class in WASTED else 0)):
            self._plus(name, value)

    def _tell(self, share: EnergyShare, energy: int) -> None:
        if share.grams_per_kwh is not None:
            self._plus("intensity_mj", energy)
            self._plus("carbon_mg", round(energy * share.grams_per_kwh / 3.6e6))
        if share.price_per_gpu_hour is not None:
            self._plus("gpu_cost_micro", round(share.gpu_seconds / 3600 * share.price_per_gpu_hour * 1e6))

    def _plus(self, name: str, value: int) -> None:
        self.sums[name] = (self.sums[name] or 0) + value


def store(connection: Connection, shares: Iterable[EnergyShare]) -> None:
    """Add windows to the sums of runs, days and nodes; a window that is there already is left out whole."""
    by_window: dict[Window, list[EnergyShare]] = {}
    for share in shares:
        by_window.setdefault((share.start_s, share.seconds), []).append(share)
    for window, some in sorted(by_window.items()):
        if not _known(connection, window):
            _store_window(connection, window, some)


def move(connection: Connection, starts: Mapping[RunKey, float]) -> None:
    """Give runs the starts that their scheduler has set anew; what is recorded under both starts is added up."""
    table = schema.run_energy
    known = _rows_of(connection, {key for run, start_s in starts.items() for key in (run, (*run[:2], start_s))})
    for run, start_s in starts.items():
        old, new = known.get(run), known.get((*run[:2], start_s))
        if old is not None and new is not None:
            _join(connection, old.id, new)
        elif old is not None:
            connection.execute(update(table).where(table.c.id == old.id).values(start_s=start_s))
            _forget_before(connection, old.id, start_s)


def _join(connection: Connection, former: int, run: TableRow) -> None:
    """Add a row to that of the run which it was part of."""
    table = schema.run_energy
    part = connection.execute(select(table).where(table.c.id == former)).one()._asdict()
    del part["id"]
    idle = None if run.idle is None or part["idle"] is None else sorted({*run.idle} & {*part["idle"]})
    accumulate(connection, table, [part | {"start_s": run.start_s, "idle": idle}], add=_RUN_SUMS, most=_RUN_PEAKS,
               replace=("idle",))
    connection.execute(update(table).where(table.c.id == run.id, table.c.first_s > part["first_s"])
                       .values(first_s=part["first_s"]))
    connection.execute(delete(table).where(table.c.id == former))


def _forget_before(connection: Connection, run: int, start_s: float) -> None:
    """Take a run out of the window within which it began anew: the power shown there would be that of both times."""
    table = schema.run_windows
    rows = connection.execute(select(table).where(
        table.c.start_s > start_s - LONGEST_S, table.c.start_s < start_s,
        table.c.start_s + table.c.seconds > start_s)).all()
    for row, (columns, names) in readable(rows, unpack):
        if columns.size:
            put_packed(connection, table, (row.start_s, row.seconds), pack(columns[:, columns[0] != run], names))


def _known(connection: Connection, window: Window) -> bool:
    table = schema.run_windows
    return connection.execute(select(table.c.start_s).where(
        table.c.start_s == window[0], table.c.seconds == window[1])).first() is not None


def _store_window(connection: Connection, window: Window, shares: Sequence[EnergyShare]) -> None:
    day_s = window[0] // DAY_S * DAY_S
    _add(connection, schema.energy_days, shares, lambda share: {
        "day_s": day_s, "partition": words(share.partition), "account": words(share.account),
        "user": words(share.user)})
    _add(connection, schema.node_days, shares, lambda share: {"day_s": day_s, "node": words(share.node)})
    energy_prices.store(connection, window[0], shares)
    numbers = _store_runs(connection, [share for share in shares if share.job_id])
    codes = {power_class: code for code, power_class in enumerate(PowerClass)}
    energies: dict[tuple[int, int], int] = {}
    for share in shares:
        for power_class, joules in share.joules.items():
            if share.run in numbers:
                place = numbers[share.run], codes[power_class]
                energies[place] = energies.get(place, 0) + (thousandths(joules) or 0)
    table = np.array([(*place, energy) for place, energy in sorted(energies.items())], np.int64).reshape(-1, 3).T
    put_packed(connection, schema.run_windows, window, pack(table, [[power_class.value for power_class in PowerClass]]))


def _add(connection: Connection, table: Table, shares: Iterable[EnergyShare],
         key_of: Callable[[EnergyShare], dict[str, object]]) -> None:
    totals: dict[tuple[object, ...], tuple[dict[str, object], _Total]] = {}
    for share in shares:
        key = key_of(share)
        totals.setdefault(tuple(key.values()), (key, _Total()))[1].add(share)
    accumulate(connection, table, [key | total.sums for key, total in totals.values()], SUMS)


def _store_runs(connection: Connection, shares: Iterable[EnergyShare]) -> dict[RunKey, int]:
    """Add shares to the sums of their runs, and return the numbers of these runs.

    Those of a run whose start was set anew since they were measured are added to it, but have no number: its timeline
    begins with its start.
    """
    by_run: dict[RunKey, list[EnergyShare]] = {}
    for share in shares:
        by_run.setdefault(share.run, []).append(share)
    before = _rows_of(connection, by_run)
    anew = _set_anew(connection, by_run.keys() - before.keys())
    late = [replace(share, run_s=start_s) for run, start_s in anew.items() for share in by_run.pop(run)]
    rows = [_row(some, before[run].idle if run in before else _EVERY) for run, some in by_run.items()]
    accumulate(connection, schema.run_energy, rows, add=_RUN_SUMS, most=_RUN_PEAKS, replace=("idle",))
    recorded = before if len(before) == len(by_run) else _rows_of(connection, by_run)
    if late:
        _store_runs(connection, late)
    return {run: recorded[run].id for run in by_run}


def _set_anew(connection: Connection, runs: Collection[RunKey]) -> dict[RunKey, float]:
    """Return the start by which each of these runs goes now, of those whose start was set anew."""
    jobs, table = schema.jobs.c, schema.runs.c
    query = select(jobs.job_id, jobs.submit_s, table.start_s).join_from(
        schema.jobs, schema.runs, table.job == jobs.id)
    starts: dict[tuple[str, float], set[float]] = {}
    for some in chunks(sorted({run[0] for run in runs})):
        for job_id, submit_s, start_s in connection.execute(query.where(jobs.job_id.in_(some))):
            starts.setdefault((job_id, submit_s), set()).add(start_s)
    later = {run: min((start for start in starts.get(run[:2], ()) if start >= run[2]), default=run[2]) for run in runs}
    return {run: start_s for run, start_s in later.items() if start_s != run[2]}


def _rows_of(connection: Connection, runs: Iterable[RunKey]) -> dict[RunKey, TableRow]:
    table, wanted = schema.run_energy.c, set(runs)
    query = select(table.id, table.job_id, table.submit_s, table.start_s, table.idle)
    rows: dict[RunKey, TableRow] = {}
    for some in chunks(sorted({run[0] for run in wanted})):
        for row in connection.execute(query.where(table.job_id.in_(some))):
            rows[row.job_id, row.submit_s, row.start_s] = row
    return {run: rows[run] for run in wanted if run in rows}


def _row(shares: Sequence[EnergyShare], idle_before: object) -> dict[str, object]:
    first, total = shares[0], _Total()
    for share in shares:
        total.add(share)
    peaks, memory = ([value for share in shares if (value := number(getattr(share, name))) is not None]
                     for name in ("power_max_watts", "memory_max_bytes"))
    shared = {"shared_ms": sum(thousandths(share.shared_seconds) or 0 for share in shares)}
    return {name: value or None if name in SELDOM else value for name, value in (total.sums | shared).items()} | {
        "job_id": words(first.job_id), "submit_s": first.submit_s, "start_s": first.run_s, "user": words(first.user),
        "account": words(first.account), "partition": words(first.partition), "gpu_model": words(first.model),
        "first_s": first.start_s, "last_s": first.start_s + first.seconds, "gpus": sum(share.gpus for share in shares),
        "seen_ms": max(thousandths(share.seen_seconds) or 0 for share in shares),
        "power_max_mw": thousandths(max(peaks)) if peaks else None, "memory_max_bytes": whole(max(memory, default=0.0))
        if memory else None, "idle": _idle(shares, idle_before)}


def _idle(shares: Sequence[EnergyShare], before: Any) -> list[str] | None:
    """Return the GPUs that were never used: neither in this window nor in those before."""
    now = [share.idle for share in shares]
    if before is None or None in now or sum(share.gpus for share in shares) > MOST_NAMED:
        return None
    return sorted(words(name) for some in now for name in some or () if before is _EVERY or name in before)
