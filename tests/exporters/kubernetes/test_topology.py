"""Where nodes hang by Kueue's Topology and Volcano's HyperNodes, asked of the emulated API server.

The objects were written by hand after the documentation of Kueue 0.14 and Volcano 1.12.
"""

import pytest

from idlewatt.exporters.kubernetes import KubernetesTopologyConfig
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import HYPER_NODES, NODES, TOPOLOGIES
from idlewatt.exporters.source import SourceError

from kube_objects import node  # isort: skip

CLIQUE = "nvidia.com/gpu.clique"
KUEUE = {"metadata": {"name": "default"}, "spec": {"levels": [
    {"nodeLabel": "cloud/block"}, {"nodeLabel": "cloud/rack"}, {"nodeLabel": CLIQUE},
    {"nodeLabel": "kubernetes.io/hostname"}]}}


@pytest.fixture
def look(server, store):
    """Return a function that puts objects into the cluster and returns the fabric that is read of it."""
    sources = []

    def read(nodes, topologies=(), groups=()):
        for name, labels in nodes.items():
            store.put(NODES, node(name, labels=labels))
        for one in topologies:
            store.put(TOPOLOGIES, one)
        for one in groups:
            store.put(HYPER_NODES, one)
        sources.append(KubernetesTopologyConfig(url=server.url).build(lambda: 1.8e9))
        return sources[-1].read()

    yield read
    for source in sources:
        source.close()


def hyper(name, tier, *members):
    return {"metadata": {"name": name}, "spec": {"tier": tier, "members": list(members)}}


def exact(kind, name):
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def matching(kind, pattern):
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def test_a_topology_of_kueue_names_the_levels_and_a_rack_is_told_from_its_namesake(look):
    labels = {f"n{number}": {"cloud/block": block, "cloud/rack": "r1", CLIQUE: f"uuid.{number}"}
              for number, block in enumerate(("b1", "b1", "b2"))}
    fabric = look(labels | {"other": {"network.topology.nvidia.com/leaf": "l9"}}, [KUEUE])

    assert fabric.leaf == {"n0": "b1/r1", "n1": "b1/r1", "n2": "b2/r1", "other": "l9"}
    assert fabric.above("b1/r1") == ("b1",)
    assert fabric.domain == {"n0": "uuid.0", "n1": "uuid.1", "n2": "uuid.2"}


def test_of_two_topologies_a_node_takes_the_one_of_which_it_has_all_labels(look):
    deeper = {"metadata": {"name": "deep"}, "spec": {"levels": [
        {"nodeLabel": "dc"}, {"nodeLabel": "cloud/block"}, {"nodeLabel": "cloud/rack"}]}}
    fabric = look({"n0": {"dc": "d", "cloud/block": "b", "cloud/rack": "r"}, "n1": {"cloud/block": "b",
                                                                                    "cloud/rack": "r"}},
                  [KUEUE, deeper])

    assert fabric.leaf == {"n0": "d/b/r", "n1": "b/r"}
    assert fabric.above("d/b/r") == ("d/b", "d")


def test_hypernodes_make_a_tree_by_name_by_pattern_and_by_labels(look):
    labelled = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r3"}}}}
    fabric = look({f"n{number}": {} for number in range(4)} | {"n9": {"rack": "r3"}}, groups=[
        hyper("s0", 1, exact("Node", "n0"), exact("Node", "n1"), exact("Node", "gone")),
        hyper("s1", 1, matching("Node", "^n[2-3]$")), hyper("s2", 1, labelled),
        hyper("s3", 2, matching("HyperNode", "^s(0|1)$")),
        hyper("top", 3, exact("HyperNode", "s3"), exact("HyperNode", "s2"))])

    assert fabric.leaf == {"n0": "s0", "n1": "s0", "n2": "s1", "n3": "s1", "n9": "s2"}
    assert (fabric.above("s0"), fabric.above("s2")) == (("s3", "top"), ("top",))


@pytest.mark.parametrize(("groups", "words"), [
    ([hyper("a", 1, matching("Node", "(n+)+$"))], "too involved"),
    ([hyper("a", 1, matching("Node", ".*.*.*.*x"))], "too involved"),
    ([hyper("a", 1, matching("Node", "n[0"))], "is no pattern"),
    ([hyper("a", 1, exact("Node", "n0")), hyper("b", 1, exact("Node", "n0"))], "node n0 hangs on two switches"),
    ([hyper("a", 1, exact("HyperNode", "b")), hyper("b", 2, exact("HyperNode", "a"))], "is above itself"),
    ([hyper("a", 1, {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "x"}]}}})],
     "expressions of labels are not read")])
def test_hypernodes_that_make_no_tree_are_told(look, groups, words):
    with pytest.raises(SourceError, match=words):
        look({"n0": {}}, groups=groups)


def test_without_both_the_known_labels_tell(look):
    fabric = look({"n0": {"fabric.topograph.run/tier-0": "l", "fabric.topograph.run/tier-1": "s",
                          "accelerator.topograph.run/domain": "nvl-1"}, "n1": {}})

    assert (fabric.leaf, fabric.parent, fabric.domain) == ({"n0": "l"}, {"l": "s"}, {"n0": "nvl-1"})


def test_what_is_not_shown_to_us_costs_only_itself(look, server, store, caplog):
    store.put(TOPOLOGIES, KUEUE)
    server.api.faults.append(Fault("/apis/kueue.x-k8s.io/v1beta2/topologies", 403, times=-1))
    assert look({"n0": {"cloud/block": "b", "cloud/rack": "r", "rack": "r7"}}).leaf == {"n0": "r7"}
    assert "topologies of kueue.x-k8s.io are not shown to us" in caplog.text
