"""Nodes of snapshots, hung on switches."""

import json
import logging

import pytest

from idlewatt.daemon.topology import AttachTopology
from idlewatt.storage.records import Node, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading
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


def gpu(node, domain):
    return GpuReading(f"{node}/{domain}", node, 0, 0.0, domain=domain)


def test_trees_of_any_depth_reach_the_nodes():
    tree = Fabric.of([Switch("leaf", ("n1", "n2")), Switch("spine", (), ("leaf",)), Switch("core", (), ("spine",)),
                      Switch("top", (), ("core",))])
    nodes = AttachTopology().hang(SNAPSHOT, [tree]).nodes
    assert {(node.leaf, node.spine, node.above) for node in nodes} == {("leaf", "spine", ("core", "top"))}


def test_domains_of_one_source_and_switches_of_another_are_laid_over_each_other():
    switches = Fabric.of([Switch("leaf", ("n1", "n2")), Switch("spine", (), ("leaf",))])
    for known in ([switches, Fabric(domain={"n1": "rack"})], [Fabric(domain={"n1": "rack"}), switches]):
        nodes = AttachTopology().hang(SNAPSHOT, known).nodes
        assert [(node.leaf, node.spine, node.above, node.domain) for node in nodes] == [
            ("rack", "leaf", ("spine",), "rack"), ("leaf", "spine", (), "")]


def test_what_gpus_tell_of_their_domain_holds_while_they_are_silent_and_yields_to_a_topology():
    hanging = AttachTopology()
    assert [node.domain for node in hanging.hang(SNAPSHOT, [], [gpu("n1", "u.1"), gpu("n2", "u.1")]).nodes] == \
        ["u.1", "u.1"]
    assert [node.domain for node in hanging.hang(SNAPSHOT, []).nodes] == ["u.1", "u.1"]
    told = hanging.hang(SNAPSHOT, [Fabric(domain={"n2": "rack7"})], [gpu("n1", "")]).nodes
    assert [(node.domain, node.leaf) for node in told] == [("", "n1"), ("rack7", "rack7")]


def test_a_node_whose_gpus_tell_two_domains_is_in_none():
    nodes = AttachTopology().hang(SNAPSHOT, [], [gpu("n1", "u.1"), gpu("n1", "u.2"), gpu("n2", "u.2")]).nodes
    assert [node.domain for node in nodes] == ["", "u.2"]


def test_a_clique_that_spans_sites_is_none_whoever_tells_of_it(caplog):
    """One source tells the trees, the GPUs their clique; neither alone is wrong."""
    sites = Fabric.of([Switch("north", ("n1",)), Switch("south", ("n2",))])
    for _ in range(3):
        nodes = AttachTopology().hang(SNAPSHOT, [sites], [gpu("n1", "fake.1"), gpu("n2", "fake.1")]).nodes
    assert [(node.leaf, node.domain) for node in nodes] == [("north", ""), ("south", "")]
    assert caplog.text.count("span several networks, which cannot be, and are left out: fake.1") == 1


def test_topologies_that_make_no_tree_together_are_told_and_the_last_is_taken(caplog):
    one = Fabric.of([Switch("a", ("n1",)), Switch("b", (), ("a",))])
    other = Fabric.of([Switch("b", ("n2",)), Switch("a", (), ("b",))])
    nodes = AttachTopology().hang(SNAPSHOT, [one, other]).nodes
    assert [(node.leaf, node.spine) for node in nodes] == [("n1", "n1"), ("b", "a")]
    assert "contradict each other, and the last is taken: switch" in caplog.text


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
