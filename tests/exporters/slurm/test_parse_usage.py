"""What has been used of limits, as a real Slurm 22.05 tells it after two jobs of 75 seconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.slurm.parse_usage import parse_usage

GPU_MINUTE, NOW = ("gpu seconds used", 60.0), 1000.0


@pytest.fixture
def told(recorded):
    parsed = parse_usage(recorded("slurm/options/scontrol_assoc_mgr.txt").decode(), NOW)
    assert not parsed.skipped
    return {one.holder: one for one in parsed.records}


def test_each_qos_and_each_association_tells_its_usage(told):
    brief, mine = told["qos", "brief"], told["qos", "mine"]
    assert brief.time_s == NOW
    assert GPU_MINUTE in brief.used
    assert ("seconds used", 75.0) in brief.used
    assert GPU_MINUTE not in mine.used
    assert ("mem seconds used", 2499 * 60.0 * 2**20) in mine.used
    assert GPU_MINUTE in told["association", "physics", "", ""].used
    assert GPU_MINUTE in told["association", "physics", "news", ""].used
    assert GPU_MINUTE not in told["association", "physics", "man", ""].used


def test_what_running_jobs_may_still_use_is_told_beside_it():
    (one,) = parse_usage("QOS=two(4) GrpWall=N(0.00) GrpTRESMins=gres/gpu=100(3) "
                         "GrpTRESRunMins=cpu=N(10),gres/gpu=N(5) User Limits= "
                         "9={GrpTRESMins=gres/gpu=7(7)}", NOW).records
    assert one.used == (("gpu seconds used", 180.0), ("seconds used", 0.0))
    assert one.promised == (("cpu seconds", 600.0), ("gpu seconds", 300.0))


@pytest.mark.parametrize("line", [
    "QOS=two(4) GrpWall=N(0.00)", "QOS=two GrpWall=N(0.00) GrpTRESMins= GrpTRESRunMins=",
    "QOS=two(4) GrpWall= GrpTRESMins= GrpTRESRunMins=",
    "Account=a Partition= GrpWall=N(1.0) GrpTRESMins= GrpTRESRunMins="])
def test_a_record_that_cannot_be_read_costs_itself_alone(line):
    parsed = parse_usage(f"{line}\nQOS=b(1) GrpWall=5(1.25) GrpTRESMins= GrpTRESRunMins=", NOW)
    assert [one.qos for one in parsed.records] == ["b"]
    assert len(parsed.skipped) == 1
    assert parsed.skipped[0].startswith("line 1: ")


@given(st.text())
def test_whatever_is_printed_nothing_breaks(text):
    parse_usage(f"QOS={text}", NOW)
    parse_usage(text, NOW)
