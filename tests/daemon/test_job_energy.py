"""The joules of jobs against the wall meters, with a daemon on the simulated cluster, restarted in between."""

import pytest
from sqlalchemy import func, select

from idlewatt.exporters.simulated.cluster import SimulatedCluster
from idlewatt.storage import schema
from idlewatt.storage.history import History


def total(history: History, table, *, of_jobs: bool | None = None) -> float:
    """Return joules; of rows with or without a user only, where that is asked."""
    query = select(func.coalesce(func.sum(table.c.energy_mj), 0))
    if of_jobs is not None:
        query = query.where((table.c.user != "") == of_jobs)
    return float(history._all(query)[0][0]) / 1000


class Meter:
    """Integrates what the wall meters of the cluster say, as a person with a notebook would."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster, self.joules = cluster, 0.0

    def read(self, seconds: float, service) -> None:
        walls = {reading.node: reading.power_watts for reading in service.known.telemetry.nodes}
        self.joules += sum(walls.values()) * seconds


def watch(rig, service, meter, steps):
    for _ in range(steps):
        rig.watch(service, 15)
        meter.read(15, service)
    service.record()


def test_jobs_and_what_nobody_holds_are_the_wall_meters_integral_over_a_restart(rig):
    meter, service = Meter(rig.cluster), rig.service()
    rig.watch(service, 15)  # from here on there is a time since the last look
    watch(rig, service, meter, 26)
    service.stop()
    again = rig.service()
    rig.watch(again, 15)  # what was between is unobserved, and in neither sum
    watch(rig, again, meter, 26)
    again.stop()
    with History.read_only(again.settings.storage.url) as history:
        runs, days, nodes = (total(history, table) for table in (
            schema.run_energy, schema.energy_days, schema.node_days))
        jobs, nobody = (total(history, schema.energy_days, of_jobs=which) for which in (True, False))
        waste = sum(reading.energy_joules for reading in history.waste(0, 1e12))
    assert runs > 0 < nobody
    assert jobs == pytest.approx(runs, abs=0.01)
    assert runs + nobody == pytest.approx(waste, rel=1e-6)
    assert days == pytest.approx(nodes, abs=0.01)
    assert runs + nobody == pytest.approx(meter.joules, rel=1e-3)


def test_a_counter_that_falls_costs_no_joule_of_a_job(rig):
    """A driver that is reloaded begins its energy counter anew; the power field takes over for that sample."""
    service, meter = rig.service(), Meter(rig.cluster)
    rig.watch(service, 15)
    watch(rig, service, meter, 10)
    rig.cluster.gpus.joules[:] = 0.0
    watch(rig, service, meter, 10)
    service.stop()
    with History.read_only(service.settings.storage.url) as history:
        assert total(history, schema.energy_days) == pytest.approx(meter.joules, rel=1e-3)
