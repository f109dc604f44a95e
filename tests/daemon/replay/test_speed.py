import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.speed import FLAT, SpeedError, measured, never_falling
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node


def test_a_curve_that_falls_is_flattened():
    assert never_falling([1, 2, 1.5, 3]).tolist() == [1, 2, 2, 3]


def test_a_table_interpolates_between_sizes_and_stays_flat_beyond():
    table = measured([{1: 10.0, 4: 34.0}], 8, [{"leaf": 0.5}])
    assert table.size[0].tolist() == [0, 10, 18, 26, 34, 34, 34, 34, 34]
    assert table.spread[0].tolist() == [1, 1, 0.5, 0.5, 0.5]
    with pytest.raises(SpeedError, match="rack"):
        measured([{1: 1.0}], 2, [{"rack": 0.5}])


def test_a_job_spread_over_leaves_runs_at_the_measured_fraction():
    nodes = [Node(f"n{i}", ("p",), 4, leaf=f"l{i // 2}", spine="s") for i in range(4)]
    table = measured([{1: 1.0, 8: 8.0}], 8, [{"leaf": 0.8, "spine": 0.5}])
    workload = Workload.of([0, 0, 0], [1000, 100, 100], [4, 8, 4], nodes=[1, 2, 1])
    near = engine.run(Cluster.from_records(nodes), workload, named("fifo+nearest"), speed=table)
    far = engine.run(Cluster.from_records(nodes), workload, named("fifo+first-fit"), speed=table)
    assert near.end[1] == pytest.approx(100 / 0.8)
    assert far.end[1] == pytest.approx(100 / 0.5)


def test_a_table_of_one_row_serves_several_applications_in_compiled_code():
    jobs = Workload.of(np.zeros(3), np.full(3, 60.0), [1, 1, 1], application=[0, 1, 2])
    done = engine.run(Cluster.from_spec("1x4"), jobs, named("fifo+best-fit+easy"), speed=FLAT)
    assert done.end.tolist() == [60.0] * 3
