import numpy as np
import pytest

from idlewatt.daemon.replay.cluster import PLENTY, Cluster, ClusterError, NodeEvent
from idlewatt.storage.records import Node, NodeState, Partition
from idlewatt.storage.topology import Fabric, NodeLinks, Switch


def test_a_spec_names_nodes_gpus_and_models():
    cluster = Cluster.from_spec("2x8:a100,1x4")
    assert cluster.gpus.tolist() == [8, 8, 4]
    assert cluster.model == ("a100", "a100", "")
    assert list(cluster.partitions) == ["default"]
    assert (cluster.cpus == PLENTY).all()


@pytest.mark.parametrize("spec", ["", "64", "x8", "0x8", "64x8x2", "two by eight"])
def test_a_spec_that_makes_no_sense_is_refused_with_an_example(spec):
    with pytest.raises(ClusterError, match="64x8"):
        Cluster.from_spec(spec)


def test_a_mapping_expands_counts_and_keeps_switches_apart():
    cluster = Cluster.from_mapping({
        "nodes": [{"name": "dgx", "count": 2, "gpus": 8, "cpus": 128, "leaf": "l1", "spine": "s1"},
                  {"name": "solo", "gpus": 4, "leaf": "l2", "spine": "s1", "partitions": ["small"]}],
        "events": [{"time": 10, "node": "solo", "kind": "down"}]})
    assert cluster.names == ("dgx0", "dgx1", "solo")
    assert cluster.leaf.tolist() == [0, 0, 1]
    assert cluster.spine.tolist() == [0, 0, 0]
    assert cluster.partitions["small"].tolist() == [False, False, True]
    assert cluster.events == (NodeEvent(10.0, "solo", "down"),)


def test_nodes_of_a_mapping_hang_where_the_fabric_says_and_strangers_are_refused():
    fabric = Fabric.of([Switch("a", ("n0", "n2")), Switch("b", ("n1",)), Switch("s", (), ("a", "b"))])
    cluster = Cluster.from_mapping({"nodes": [{"name": "n", "count": 3, "gpus": 8}]}, fabric)
    assert (cluster.leaf.tolist(), cluster.spine.tolist()) == ([0, 1, 0], [0, 0, 0])
    with pytest.raises(ClusterError, match="1 nodes hang on no switch of the topology: n3"):
        Cluster.from_mapping({"nodes": [{"name": "n", "count": 4, "gpus": 8}]}, fabric)


def test_nodes_of_a_mapping_are_divided_as_their_gpus_are_and_other_gpus_are_refused():
    halves = NodeLinks(("n*",), ((0, 1), (2, 3)))
    cluster = Cluster.from_mapping({"nodes": [{"name": "n", "count": 2, "gpus": 4}, {"name": "m", "gpus": 8}]}, halves)
    assert cluster.islands == {"n0": halves.islands, "n1": halves.islands}
    with pytest.raises(ClusterError, match="1 nodes have another number of GPUs than the links name: n0"):
        Cluster.from_mapping({"nodes": [{"name": "n0", "gpus": 8}]}, halves)


@pytest.mark.parametrize("described", [{"node": []}, {"nodes": [{"gpu": 8}]}, {"nodes": [{"gpus": -1}]}, {"nodes": []},
                                       {"nodes": [{"name": "a", "gpus": 1}, {"name": "a", "gpus": 1}]},
                                       {"nodes": [{"gpus": 1}], "events": [{"time": 0, "node": "x", "kind": "up"}]}])
def test_a_mapping_with_a_mistake_is_refused(described):
    with pytest.raises(ClusterError):
        Cluster.from_mapping(described)


def test_records_give_partitions_with_the_default_one_first_and_close_drained_nodes():
    nodes = [Node("a", ("long",), 8, "a100", cpus=64, memory_bytes=1 << 40),
             Node("b", ("long",), 8, "a100", state=NodeState.DRAINED)]
    cluster = Cluster.from_records(nodes, [Partition("long", ("a", "b")), Partition("short", ("a",), default=True)])
    assert list(cluster.partitions) == ["short", "long"]
    assert cluster.up.tolist() == [True, False]
    assert cluster.cpus.tolist() == [64, PLENTY]
    assert np.array_equal(cluster.partitions["short"], [True, False])


def test_a_described_cluster_may_carry_slurms_settings():
    described = {"nodes": [{"name": "a", "gpus": 4}], "settings": {
        "PriorityWeightAge": 1000, "SchedulerParameters": "bf_interval=60", "AccountingStorageEnforce": "qos"}}
    scheduling = Cluster.from_mapping(described).scheduling

    assert scheduling.priority.age == 1000
    assert scheduling.backfill.interval_s == 60
    assert not scheduling.books_ends
    assert "PriorityWeightQOS" in scheduling.priority.unset
    with pytest.raises(ClusterError, match="PriorityMaxAge='soon' is no duration"):
        Cluster.from_mapping({**described, "settings": {"PriorityMaxAge": "soon"}})
