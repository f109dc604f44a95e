"""Topology as sites keep it: Slurm's file, nvidia-smi's table, Kubernetes' labels."""

import contextlib
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.topology import labels_of, parse_labels, parse_matrix, parse_switches, parse_table
from idlewatt.storage.topology import TopologyError

RECORDED = Path(__file__).parent.parent / "recorded/slurm/scontrol_show_topology.txt"
CONF = """
# two leaves below one spine
SwitchName=leaf1 Nodes=dgx-a100-[01-02]   # the A100 servers
SwitchName=leaf2 LinkSpeed=100 \\
    Nodes=dgx-v100-[01-02]
switchname=spine1 Switches=leaf[1-2]
"""


def test_the_file_and_what_scontrol_prints_give_the_same_fabric():
    from_file, from_slurm = parse_switches(CONF), parse_switches(RECORDED.read_text())

    assert from_file == from_slurm
    assert from_slurm.leaf["dgx-v100-02"] == "leaf2"
    assert from_slurm.spine("dgx-v100-02") == "spine1"


def test_a_slurm_without_topology_gives_an_empty_fabric():
    assert parse_switches("").leaf == {}


@pytest.mark.parametrize(("text", "words"), [
    ("SwitchName=a Nodes=n1\nNodes=n2", "line 2: no SwitchName"),
    ("SwitchName=a Nodes=n[3-1]", "line 1: a range that runs backwards"),
    ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: switch a is described twice"),
    ("SwitchName=a Nodes=n[1-99999999]", "more than 65536 hosts"),
    ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "node n1 hangs on two switches"),
    ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "is above itself"),
    ("\n".join(["x"] * 100_001), "no topology is so long"),
])
def test_a_wrong_file_says_where_it_is_wrong(text, words):
    with pytest.raises(TopologyError, match=words):
        parse_switches(text)


@given(st.text(alphabet="SwitchName=odeslaf[]0-9, \\\n#", max_size=200))
def test_no_text_does_more_than_be_refused(text):
    with contextlib.suppress(TopologyError):
        parse_switches(text)


def kubernetes(**labels):
    items = [{"metadata": {"name": name, "labels": told}} for name, told in labels.items()]
    return {"kind": "NodeList", "items": items}


def test_labels_of_kubernetes_nodes_tell_leaf_and_spine():
    leaf, spine = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"
    listing = kubernetes(n1={leaf: "l1", spine: "s1"}, n2={leaf: "l1", spine: "s1"}, n3={leaf: "l2"}, n4={})

    fabric = parse_labels(labels_of(json.loads(json.dumps(listing))))

    assert fabric.leaf == {"n1": "l1", "n2": "l1", "n3": "l2"}
    assert (fabric.spine("n1"), fabric.spine("n3"), fabric.spine("n4")) == ("s1", "", "")


@pytest.mark.parametrize("listing", [[], {}, {"items": {}}, {"items": ["x"]}, {"items": [{"metadata": {}}]},
                                     {"items": [{"metadata": {"name": "n", "labels": []}}, {"metadata": None}]}])
def test_what_is_no_list_of_nodes_is_refused(listing):
    with pytest.raises(TopologyError, match="items"):
        labels_of(listing)


def test_a_leaf_below_two_spines_is_refused():
    with pytest.raises(TopologyError, match="l1 hangs on two switches"):
        parse_labels({"a": {"rack": "l1", "topology.kubernetes.io/zone": "z1"},
                      "b": {"rack": "l1", "topology.kubernetes.io/zone": "z2"}})


def matrix(links, gpus, nics=True):
    """Write a table as nvidia-smi does: tabs, escape codes for underlining, NICs, affinities, a legend."""
    head = [f"\x1b[4mGPU{gpu}" for gpu in gpus] + (["NIC0"] if nics else []) + ["CPU Affinity", "NUMA Affinity",
                                                                              "GPU NUMA ID\x1b[0m"]
    rows = ["\t" + "\t".join(head)]
    for one in gpus:
        cells = [" X " if one == other else links(one, other) for other in gpus] + (["PXB"] if nics else [])
        rows.append("\t".join([f"GPU{one}", *cells, "0-31,64-95", str(int(one > 3)), "N/A"]))
    rows += ["NIC0\t" + "\t".join("PXB" for _ in gpus) + "\t X ", "", "Legend:", "", "  X    = Self",
             "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes"]
    return "\n".join(rows)


def test_a_dgx_with_nvswitch_is_one_island_with_all_links_bonded():
    links = parse_matrix(matrix(lambda one, other: "NV12", range(8)))

    assert links.islands() == (tuple(range(8)),)
    assert set(links.lanes.values()) == {12}
    assert links.numa == {gpu: int(gpu > 3) for gpu in range(8)}


def test_a_gpu_missing_from_the_middle_leaves_a_hole():
    links = parse_matrix(matrix(lambda one, other: "NV4", (0, 1, 2, 4), nics=False))

    assert links.gpus == (0, 1, 2, 4)
    assert links.distance(2, 4) == 0


@pytest.mark.parametrize(("text", "words"), [
    ("", "not a table"),
    ("No devices were found", "not a table"),
    (matrix(lambda one, other: "SYS" if one < other else "PIX", range(2)),
     "GPU0 reaches GPU1 by SYS, but back it is PIX"),
    (matrix(lambda one, other: "WIFI", range(2)), "unknown link 'WIFI'"),
    ("\tGPU0\tGPU1\nGPU0\t X ", "GPU0: 1 columns, but the table has 2 GPUs"),
    ("\tGPU0\tGPU1\nGPU0\t X \tPIX", "GPU0 reaches GPU1 by PIX, but back it is None"),
    (matrix(lambda one, other: "SYS", range(65)), "65 GPUs"),
])
def test_a_table_that_cannot_be_is_refused(text, words):
    with pytest.raises(TopologyError, match=words):
        parse_matrix(text)


TABLE = "ip,DSW,PSW,ASW\nn1,G6,P10,S1\nn2,G6,P10,S2\nn3,G6,P12,S1\n"


def test_a_table_names_switches_after_those_above_them():
    fabric = parse_table(TABLE)

    assert fabric.leaf == {"n1": "G6/P10/S1", "n2": "G6/P10/S2", "n3": "G6/P12/S1"}
    assert [fabric.spine(node) for node in fabric.leaf] == ["G6/P10", "G6/P10", "G6/P12"]
    assert fabric.above("G6/P12/S1") == ("G6/P12", "G6")


def test_a_table_may_know_leaves_only():
    assert parse_table("host,leaf\nn1,a\nn2,a").leaf == {"n1": "a", "n2": "a"}


@pytest.mark.parametrize(("text", "words"), [
    ("", "not a table"), ("ip\nn1", "not a table"), ("ip,leaf", "not a table"),
    (TABLE + "n4,G6,P10", "line 5: 4 columns"), (TABLE + "n4,G6,,S1", "line 5: 4 columns"),
    (TABLE + "n1,G6,P12,S1", "node n1 hangs on two switches: G6/P10/S1 and G6/P12/S1")])
def test_a_table_that_cannot_be_read_says_where(text, words):
    with pytest.raises(TopologyError, match=words):
        parse_table(text)


def test_the_published_fabric_of_lingjun_is_a_tree(traces):
    with gzip.open(traces / "alibaba_lingjun_2023/topo.csv.gz", "rt") as file:
        fabric = parse_table(file.read())

    leaves = Counter(fabric.leaf.values())
    assert (len(fabric.leaf), max(leaves.values())) == (847, 8)
    assert Counter(map(fabric.spine, fabric.leaf)) == {"G6/P10": 362, "G6/P12": 306, "G6/P8": 179}
    assert set(fabric.parent) == {*leaves, "G6/P10", "G6/P12", "G6/P8"}
