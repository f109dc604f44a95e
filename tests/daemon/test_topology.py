"""Nodes of snapshots, hung on switches."""

import json
import logging

import pytest

from idlewatt.daemon.topology import AttachTopology
from idlewatt.storage.records import Node, SchedulerSnapshot
from idlewatt.storage.topology import Fabric, NodeLinks, Switch

SNAPSHOT = SchedulerSnapshot(0.0, (Node("n1", ("all",), 8), Node("n2", ("all",), 8)))
FABRIC = Fabric.of([Switch("leaf", ("n1", "n9")), Switch("spine", (), ("leaf",))])


def test_the_snapshot_learns_the_switches_of_its_nodes_and_others_are_far_from_all():
    nodes = AttachTopology().hang(SNAPSHOT, [FABRIC]).nodes

    assert [(node.leaf, node.spine) for node in nodes] == [("leaf", "spine"), ("n2", "n2")]


def test_what_does_not_fit_together_is_said_once(caplog):
    hanging = AttachTopology()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            hanging.hang(SNAPSHOT, [FABRIC])

    assert [record.getMessage().split(":")[-1].strip() for record in caplog.records] == ["n9", "n2"]


def test_without_a_topology_nothing_is_changed_or_said(caplog):
    assert AttachTopology().hang(SNAPSHOT, []) == SNAPSHOT
    assert not caplog.records


def test_the_snapshot_learns_how_gpus_are_linked_and_what_has_no_such_links_is_said_once(caplog):
    mixed = SchedulerSnapshot(0.0, (*SNAPSHOT.nodes, Node("sliced", ("all",), 56, "1g.5gb")))
    halves = NodeLinks(("n1", "sliced"), ((0, 1, 2, 3), (4, 5, 6, 7)))
    hanging = AttachTopology()

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nodes = hanging.hang(mixed, [FABRIC, halves]).nodes

    assert [node.islands for node in nodes] == [halves.islands, (), ()]
    assert len(caplog.records) == 3
    assert "MIG slices have no links): sliced" in caplog.text


KUBERNETES = {"items": [{"metadata": {"name": name, "labels": {"network.topology.nvidia.com/leaf": leaf,
                                                               "network.topology.nvidia.com/spine": "core"}}}
                        for name, leaf in (("dgx-a100-01", "l1"), ("dgx-a100-02", "l1"), ("dgx-v100-01", "l2"))]}
QUADS = "\t" + "\t".join(f"GPU{gpu}" for gpu in range(8)) + "\n" + "\n".join(
    "\t".join([f"GPU{one}", *(" X " if one == other else "NV2" if one // 4 == other // 4 else "SYS"
                             for other in range(8))]) for one in range(8))
"""A DGX-1 whose NVLinks are looked at as two quads."""


@pytest.fixture
def told(rig, tmp_path):
    """A daemon that is told of labels by a file, of one switch by hand, and of links by nvidia-smi's table."""
    (tmp_path / "nodes.json").write_text(json.dumps(KUBERNETES))
    (tmp_path / "v100.topo").write_text(QUADS)
    service = rig.service(sources=(
        f"[{{kind: slurm_rest, url: '{rig.server.url}'}}, {{kind: topology_file, file: '{tmp_path}/nodes.json'}}, "
        "{kind: topology, leaves: {l3: dgx-v100-02}, spines: {core: l3}}, "
        f"{{kind: gpu_links, nodes: [dgx-v100-*], file: '{tmp_path}/v100.topo'}}]"))
    service.jobs()
    return service


def test_labels_configuration_and_links_reach_the_nodes_of_the_live_snapshot(told):
    nodes = {node.name: node for node in told.known.snapshot.nodes}

    assert {name: (node.leaf, node.spine) for name, node in nodes.items()} == {
        "dgx-a100-01": ("l1", "core"), "dgx-a100-02": ("l1", "core"), "dgx-v100-01": ("l2", "core"),
        "dgx-v100-02": ("l3", "core")}
    assert nodes["dgx-v100-01"].islands == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert nodes["dgx-a100-01"].islands == ()
    assert all(watched.status.success for watched in told.sources)


def test_advice_names_the_gpus_of_one_island(told, rig):
    state = told.known.snapshot
    halves = {node.name: node.islands for node in state.nodes}
    told.advise()

    named = [(node, set(indexes)) for row in told.known.advice.recommendations if row.gpu_indexes
             for node, indexes in zip(row.placement.nodes, row.gpu_indexes, strict=True) if node.startswith("dgx-v100")]
    small = [(node, indexes) for node, indexes in named if len(indexes) <= 4]
    assert small
    assert all(any(indexes <= set(island) for island in halves[node]) for node, indexes in small)


BAD = {
    "loop": ("topology_file", "SwitchName=a Switches=b\nSwitchName=b Switches=a", "is above itself"),
    "two-leaves": ("topology_file", "SwitchName=a Nodes=dgx-a100-01\nSwitchName=b Nodes=dgx-a100-01",
                   "node dgx-a100-01 hangs on two switches: a and b"),
    "half-described": ("topology_file", "SwitchName=a Switches=b", "switch a is above b, which is not described"),
    "one-way": ("gpu_links", "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tSYS\t X ", "by NV4, but back it is SYS"),
    "gone": ("topology_file", None, "cannot be read"),
}
STATION = "\tGPU0\tGPU1\tGPU2\tGPU4\n" + "\n".join(
    "\t".join([f"GPU{one}", *(" X " if one == other else "NV4" for other in (0, 1, 2, 4))]) for one in (0, 1, 2, 4))


def test_a_topology_that_cannot_be_is_told_and_hides_nothing_else(rig, tmp_path, caplog):
    (tmp_path / "good.conf").write_text("SwitchName=good Nodes=dgx-a100-[01-02],nowhere")
    (tmp_path / "station.topo").write_text(STATION)
    sources = [f"{{kind: slurm_rest, url: '{rig.server.url}'}}",
               f"{{kind: topology_file, file: '{tmp_path}/good.conf'}}",
               f"{{kind: gpu_links, nodes: [dgx-*], file: '{tmp_path}/station.topo'}}"]
    for name, (kind, text, _) in BAD.items():
        if text is not None:
            (tmp_path / name).write_text(text)
        nodes = "nodes: [dgx-*], " if kind == "gpu_links" else ""
        sources.append(f"{{name: {name}, kind: {kind}, {nodes}file: '{tmp_path}/{name}'}}")
    service = rig.service(sources=f"[{', '.join(sources)}]")

    service.jobs()

    wrong = {watched.name: watched.status.error for watched in service.sources if not watched.status.success}
    assert set(wrong) == set(BAD)
    assert all(words in wrong[name] for name, (_, _, words) in BAD.items())
    nodes = {node.name: node for node in service.known.snapshot.nodes}
    assert {name: node.leaf for name, node in nodes.items()} == {
        "dgx-a100-01": "good", "dgx-a100-02": "good", "dgx-v100-01": "dgx-v100-01", "dgx-v100-02": "dgx-v100-02"}
    assert not any(node.islands for node in nodes.values())
    assert "1 nodes that the scheduler does not know: nowhere" in caplog.text
    assert "4 nodes have another number of GPUs than their kind" in caplog.text
