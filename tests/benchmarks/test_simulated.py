"""The simulated cluster must fill weeks of history in seconds."""

import time

from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster


def test_hundreds_of_simulated_hours_pass_in_a_second(capsys):
    hours = 24 * 14
    cluster, began_s = SimulatedCluster(ClusterShape(tick_s=60)), time.process_time()
    for _ in cluster.run(hours * 3600, every_s=300):
        pass
    speed = hours / (time.process_time() - began_s)
    with capsys.disabled():
        print(f"\n4 nodes, ticks of 60 s: {speed:,.0f} simulated hours per CPU second (bound 100)")
    assert speed > 100


def test_a_thousand_nodes_keep_up_with_the_demo(capsys):
    cluster, began_s = SimulatedCluster(ClusterShape(nodes=1000)), time.process_time()
    cluster.advance(cluster.now_s + 3600)
    speed = 3600 / (time.process_time() - began_s)
    with capsys.disabled():
        print(f"\n1,000 nodes, ticks of 5 s: {speed:,.0f} simulated seconds per CPU second (bound 120)")
    assert speed > 120
