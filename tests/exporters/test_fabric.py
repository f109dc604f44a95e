"""The fabric as a source: read seldom, kept while it cannot be read."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from idlewatt.exporters.fabric import GpuLinksConfig, SlurmTopologyConfig, TopologyConfig, TopologyFileConfig
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


@pytest.mark.parametrize(("name", "text"), [
    ("topology.yaml", '- {topology: x, block: {blocks: [{block: "b\\e[2J", nodes: n1}]}}'),
    ("topology.conf", "SwitchName=a\x1b[2J Nodes=n1"),
    ("nodes.json", '{"items": [{"metadata": {"name": "n1", "labels": {"rack": "r\\u001b[2J"}}}]}')])
def test_a_name_that_would_command_a_terminal_is_refused(tmp_path, clock, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match="in no name"):
        TopologyFileConfig(file=tmp_path / name).build(clock).read()


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


def test_switches_can_be_written_down(clock):
    fabric = TopologyConfig(leaves={"l1": "n[1-2]", "l2": "n3"}, spines={"s": "l[1-2]"}).build(clock).read()

    assert fabric.leaf == {"n1": "l1", "n2": "l1", "n3": "l2"}
    assert fabric.spine("n3") == "s"


@pytest.mark.parametrize(("keys", "words"), [
    ({"leaves": {"a": "n1", "b": "n1"}}, "node n1 hangs on two switches: a and b"),
    ({"leaves": {"a": "n1"}, "spines": {"s": "b"}}, "s is above b, which is not described"),
    ({"leaves": {"a": "n1"}, "spines": {"s": "t", "t": "s"}}, "is above itself"),
    ({"leaves": {"a": "n[2-1]"}}, "runs backwards")])
def test_switches_that_cannot_be_are_refused_with_the_configuration(keys, words):
    with pytest.raises(ValidationError, match=words):
        TopologyConfig(**keys)


LINKS = "\tGPU0\tGPU1\tGPU2\tGPU4\n" + "\n".join(
    "\t".join([f"GPU{one}", *(" X " if one == other else "NV4" if (one < 2) == (other < 2) else "SYS"
                             for other in (0, 1, 2, 4))]) for one in (0, 1, 2, 4))


def test_the_links_of_a_server_are_read_from_a_file_over_the_hole_in_its_numbers(tmp_path, clock):
    path = tmp_path / "station.topo"
    path.write_text(LINKS)

    links = GpuLinksConfig(nodes=("station-*",), file=path).build(clock).read()

    assert (links.names, links.islands) == (("station-*",), ((0, 1), (2, 3)))


def test_the_links_of_a_server_can_be_written_down(clock):
    assert GpuLinksConfig(nodes=("n1",), islands=((0, 1), (2, 3))).build(clock).read().islands == ((0, 1), (2, 3))


@pytest.mark.parametrize(("keys", "words"), [
    ({}, "either file or islands"), ({"file": "x", "islands": [[0]]}, "either file or islands"),
    ({"islands": [[0, 0]]}, "each GPU from 0 on once"), ({"nodes": [], "islands": [[0]]}, "at least 1")])
def test_links_that_cannot_be_are_refused_with_the_configuration(keys, words):
    with pytest.raises(ValidationError, match=words):
        GpuLinksConfig(**{"nodes": ["n1"], **keys})


def test_a_link_that_is_another_one_way_than_back_is_refused_with_the_name_of_the_file(tmp_path, clock):
    path = tmp_path / "bad.topo"
    path.write_text(LINKS.replace("NV4", "SYS", 1))

    with pytest.raises(SourceError, match=r"bad.topo: GPU0 reaches GPU1 by SYS, but back it is NV4"):
        GpuLinksConfig(nodes=("n1",), file=path).build(clock).read()
