"""NVLink domains across nodes, from labels and from Slurm's newer texts; the closest level, above leaf switches.

Slurm 22.05, which the tests run, has no topology/block and no topology.yaml: the texts here were written by hand after
the documentation of 23.11 and 25.05.
"""

import pytest

from idlewatt.exporters.domains import parse_yaml
from idlewatt.exporters.fabric import TopologyConfig, TopologyFileConfig
from idlewatt.exporters.topology import parse_labels, parse_switches
from idlewatt.storage.records import Node
from idlewatt.storage.topology import TopologyError

BLOCKS = """# topology/block, after the documentation of Slurm 23.11
BlockName=rack1 Nodes=tray[01-18]
BlockName=rack2 Nodes=tray[19-36]
BlockSizes=18,36
"""
SHOWN = "BlockName=rack1 BlockIndex=0 Nodes=tray[01-18] BlockSize=18\nAggregatedBlock=rack[1-2] Nodes=tray01\n"
YAML = """---
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[1-2]"}
      - {switch: s1, nodes: "tray[01-18],cpu[1-2]"}
      - {switch: s2, nodes: "tray[19-36]"}
- topology: racks
  cluster_default: false
  block:
    block_sizes: [18]
    blocks:
      - {block: rack1, nodes: "tray[01-18]"}
      - {block: rack2, nodes: "tray[19-36]"}
- {topology: flat, flat: true}
"""
CLIQUE = "8d3e8c4e-5b5e-4c0b-9b53-0d3c3f1f7a11.1"


def places(fabric, *names):
    return [(node.leaf, node.spine, node.domain) for node in fabric.placed([Node(name, ("p",), 4) for name in names])]


def test_slurms_blocks_are_domains():
    fabric = parse_switches(BLOCKS)
    assert len(fabric.domain) == 36
    assert places(fabric, "tray01", "tray36") == [("rack1", "", "rack1"), ("rack2", "", "rack2")]
    assert parse_switches(SHOWN).domain["tray18"] == "rack1"


def test_a_tree_and_blocks_of_one_file_are_laid_over_each_other():
    fabric = parse_yaml(YAML)
    assert places(fabric, "tray02", "tray19", "cpu1") == [
        ("rack1", "s1", "rack1"), ("rack2", "s2", "rack2"), ("s1", "top", "")]
    assert fabric.above("s1") == ("top",)


def test_a_file_is_read_by_what_it_is(tmp_path):
    (tmp_path / "topology.yaml").write_text(YAML)
    source = TopologyFileConfig(file=tmp_path / "topology.yaml").build(lambda: 0.0)
    assert source.read().domain["tray36"] == "rack2"


@pytest.mark.parametrize("text", ["a: 1", "- {topology: x, tree: {switches: 7}}", "- {tree: {}}", "[" * 50,
                                  "- !!bool x", "- !!timestamp x",
                                  "- {topology: x, block: {blocks: [{nodes: 'n1'}]}}",
                                  "- {topology: x, block: {blocks: [{block: b, nodes: 'n[1-'}]}}",
                                  "- {topology: x, block: {blocks: [{block: a, nodes: n1}, {block: b, nodes: n1}]}}"])
def test_what_is_no_topology_is_refused(text):
    with pytest.raises(TopologyError):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["- {topology: x, tree: {switches: " + "[" * 500 + "]" * 500 + "}}",
                                  "- topology: x\n  tree: " + "{a: " * 50_000])
def test_lists_within_lists_are_refused_before_they_end_the_process(text):
    with pytest.raises(TopologyError, match="more than 32 deep"):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "- {topology: x, tree: {switches: " + "[" * 3000 + "]" * 3000 + "}}"])
def test_lists_without_bottom_are_refused_before_they_end_the_process(text):
    # libyaml from 0.2.6 on ends at 1,000 levels by itself, before it tells of the first.
    with pytest.raises(TopologyError, match="more than 32 deep|exceeded maximum nesting depth"):
        parse_yaml(text)


def test_a_text_whose_references_stand_for_more_than_the_memory_holds_is_refused_at_once():
    merged = "".join(f"  a{row}: &a{row} {{<<: [*a{row - 1}, *a{row - 1}]}}\n" for row in range(1, 22))
    for text in (f"- topology: x\n  a0: &a0 {{k: v}}\n{merged}",
                 "- topology: x\n  a0: &a0 [k]\n  tree: {switches: [{switch: s, nodes: *a0}]}\n"):
        with pytest.raises(TopologyError, match="refers to another place"):
            parse_yaml(text)


@pytest.mark.parametrize("label", ["nvidia.com/gpu.clique", "accelerator.topograph.run/domain",
                                   "network.topology.nvidia.com/accelerator"])
def test_labels_name_domains(label):
    fabric = parse_labels({"t1": {label: CLIQUE}, "t2": {label: CLIQUE}, "old": {}})
    assert fabric.domain == {"t1": CLIQUE, "t2": CLIQUE}
    assert places(fabric, "t1", "old") == [(CLIQUE, "", CLIQUE), ("", "", "")]


def test_tiers_of_topograph_make_a_tree_of_any_depth():
    tier = "fabric.topograph.run/tier-{}".format
    fabric = parse_labels({
        "a": {tier(0): "l1", tier(1): "s1", tier(2): "c1", tier(3): "site"},
        "b": {tier(0): "l2", tier(1): "s2", tier(2): "c1", tier(3): "site"}})
    assert fabric.above("l1") == ("s1", "c1", "site")
    assert fabric.above("l2") == ("s2", "c1", "site")


def test_clouds_tell_their_layers_and_zones_stand_above_leaves():
    aws = "topology.k8s.aws/network-node-layer-{}".format
    fabric = parse_labels({"a": {aws(1): "top", aws(2): "mid", aws(3): "low"},
                           "g": {"cloud.google.com/gce-topology-subblock": "sub",
                                 "cloud.google.com/gce-topology-block": "block"},
                           "r": {"rack": "r1", "topology.kubernetes.io/zone": "z1"}})
    assert places(fabric, "a", "g", "r") == [("low", "mid", ""), ("sub", "block", ""), ("r1", "z1", "")]
    assert fabric.above("low") == ("mid", "top")


def test_a_clique_that_spans_sites_is_none(caplog):
    leaf, spine, clique = "rack", "topology.kubernetes.io/zone", "nvidia.com/gpu.clique"
    fabric = parse_labels({"a": {leaf: "l1", spine: "seoul", clique: CLIQUE},
                           "b": {leaf: "l2", spine: "busan", clique: CLIQUE},
                           "c": {leaf: "l1", spine: "seoul", clique: "other.1"}})
    assert fabric.domain == {"c": "other.1"}
    assert "span several networks" in caplog.text


def test_a_gpu_without_a_fabric_is_in_no_domain():
    nobody = "00000000-0000-0000-0000-000000000000.0"
    assert parse_labels({"a": {"nvidia.com/gpu.clique": nobody}}).domain == {}


def test_domains_may_be_named_in_the_configuration():
    fabric = TopologyConfig(domains={"rack1": "tray[01-18]"}).fabric()
    assert fabric.domain["tray18"] == "rack1"
    assert fabric.loose([Node("tray01", ("p",), 4), Node("x", ("p",), 4)]) == ("x",)
    assert fabric.strangers([Node("x", ("p",), 4)])[0] == "tray01"
