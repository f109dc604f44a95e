"""The fabric as a source: read seldom, kept while it cannot be read."""

from pathlib import Path

import pytest

from idlewatt.exporters.fabric import SlurmTopologyConfig, TopologyFileConfig
from idlewatt.exporters.source import SourceError, Watched

RECORDED = Path(__file__).parent.parent / "recorded/slurm/scontrol_show_topology.txt"


def test_a_file_is_read_again_when_its_time_has_come(tmp_path, clock):
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1")
    source = TopologyFileConfig(file=path, every="10m").build(clock)
    assert source.read().leaf == {"n1": "a"}

    path.write_text("SwitchName=b Nodes=n1")
    assert source.read().leaf == {"n1": "a"}
    clock.now += 600
    assert source.read().leaf == {"n1": "b"}


def test_a_file_that_went_bad_leaves_the_last_fabric_and_says_why(tmp_path, clock):
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1")
    watched = Watched(TopologyFileConfig(file=path, every="1s").build(clock), clock)
    assert watched.read().fresh

    path.write_text("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1")
    clock.now += 1
    snapshot = watched.read()

    assert (snapshot.fresh, snapshot.data.leaf) == (False, {"n1": "a"})
    assert "topology.conf: node n1 hangs on two switches" in watched.status.error
    assert not watched.health()[0].up


def test_kubernetes_labels_are_recognised_in_a_file(tmp_path, clock):
    path = tmp_path / "nodes.json"
    path.write_text('{"items": [{"metadata": {"name": "n1", "labels": {"rack": "r1"}}}]}')

    assert TopologyFileConfig(file=path).build(clock).read().leaf == {"n1": "r1"}


def test_a_table_is_recognised_in_a_file(tmp_path, clock):
    path = tmp_path / "topo.csv"
    path.write_text("ip,DSW,PSW,ASW\nn1,G6,P10,S14\n")

    assert TopologyFileConfig(file=path).build(clock).read().leaf == {"n1": "G6/P10/S14"}


@pytest.mark.parametrize("content", ["a,b\nn1", '{"items": ', "{" * 100_000, "\x00\x01"])
def test_a_broken_file_is_refused(tmp_path, clock, content):
    path = tmp_path / "broken"
    path.write_text(content)

    with pytest.raises(SourceError, match="broken"):
        TopologyFileConfig(file=path).build(clock).read()


def test_scontrol_tells_the_switches(tmp_path, clock):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = 'show topology' ] && cat {RECORDED}\n")
    program.chmod(0o755)

    fabric = SlurmTopologyConfig(bin_dir=tmp_path).build(clock).read()

    assert fabric.spine("dgx-a100-01") == "spine1"


def test_a_missing_scontrol_says_so(tmp_path, clock):
    with pytest.raises(SourceError, match="cannot run"):
        SlurmTopologyConfig(bin_dir=tmp_path).build(clock).read()
