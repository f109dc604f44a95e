"""Speeds as a file."""

import os

import pytest
from test_site_speeds import SPEEDS

from idlewatt.daemon.replay.site_speeds import SiteSpeeds
from idlewatt.daemon.replay.speed import SpeedError
from idlewatt.daemon.replay.speed_file import read, text


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "speeds.yaml"
        path.write_text(content)
        return path

    return write


def test_what_is_written_is_what_is_read(written):
    speeds = SiteSpeeds("site", SPEEDS.groups, ("one note",), {"n0": ("l0", "s0")})
    found = read(written(text(speeds)))
    assert found == speeds
    assert found.identity == speeds.identity


def test_a_bare_number_is_somebodys_word(written):
    found = read(written("groups:\n- {name: '*bert*', spread: {leaf: 0.7}, size: {1: 10, 2: 19}}\n"))
    group = found.groups[0]
    assert (found.origin, group.user) == ("speeds.yaml", "*")
    assert (group.spread["leaf"].factor, group.spread["leaf"].source) == (0.7, "prior")
    assert found.table.size[1].tolist() == [0, 10, 19]


@pytest.mark.parametrize(("content", "faults"), [
    ("groups:\n- {name: x, spread: {leaf: 0}}", "groups[0].spread.leaf.factor: input should be greater than 0, not 0"),
    ("groups:\n- {name: x, spread: {leaf: .nan}}", "groups[0].spread.leaf.factor"),
    ("groups:\n- {name: x, spread: {leaf: -1}}", "groups[0].spread.leaf.factor"),
    ("groups:\n- {name: x, spread: {leaf: yes}}", "groups[0].spread.leaf"),
    ("groups:\n- {name: x, spread: {rack: 1}}", "unknown levels: rack; known"),
    ("groups:\n- {name: x, size: {0: 1}}", "sizes are 1 to 1024 GPUs"),
    ("groups:\n- {name: x, company: {y: 1}}", "there is no group 'y'"),
    ("groups:\n- {name: x, spread: {leaf: {factor: 1, low: 2}}}", "outside of its interval"),
    ("groups:\n- {name: x, spread: {leaf: {factor: 1, source: guess}}}", "groups[0].spread.leaf.source"),
    ("groups:\n- {spread: {}}", "groups[0].name: field required"),
    ("groups:\n- {name: x, speed: 1}", "groups[0].speed: extra inputs"),
    ("groups:\n- {name: x}\n- {name: x}", "two groups are */x"),
    ("[1, 2]", "the file: names of parts with their values are expected"),
    ("groups: {", "not YAML"), ("", "the file"), ("[" * 200_000, "nest"),
    ("groups:\n- {name: x, size: {1: 2024-13-45}}", "not YAML: month must be in 1..12")])
def test_what_is_wrong_with_a_file_is_said_with_its_place(written, content, faults):
    with pytest.raises(SpeedError) as error:
        read(written(content))
    assert faults in str(error.value)
    assert "speeds.yaml" in str(error.value)


def test_speeds_that_contradict_each_other_are_kept_and_told(written):
    found = read(written("groups:\n- {name: x, spread: {leaf: 0.7, spine: 0.9}}\n"))
    assert "x was faster on GPUs further apart" in found.notes[0]
    assert found.table.spread[1, 3] == 0.9


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/null"), os.mkdir],
                         ids=["pipe", "device", "folder"])
def test_what_may_never_end_is_no_file_of_speeds(tmp_path, put):
    put(tmp_path / "speeds.yaml")
    with pytest.raises(SpeedError, match=r"speeds\.yaml: not a plain file; put the file itself there"):
        read(tmp_path / "speeds.yaml")
