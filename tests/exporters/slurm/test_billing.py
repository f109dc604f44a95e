"""What partitions charge for, as scontrol and every version of slurmrestd write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.slurm.billing import parse_weights
from idlewatt.exporters.slurm.fields import Fields
from idlewatt.exporters.slurm.parse_rules import parse_partition
from idlewatt.exporters.slurm.parse_text import parse_partitions

TOLD = "CPU=1.0,Mem=0.25G,GRES/gpu=2.0,GRES/gpu:a100=3,node=5,license/matlab=7"
GIB = 2**30
WEIGHTS = (("cpu", 1.0), ("mem", 0.25 / GIB), ("gpu", 2.0), ("gpu:a100", 3.0), ("node", 5.0), ("license/matlab", 7.0))


def test_weights_are_by_resource_and_those_of_memory_by_byte():
    assert parse_weights(TOLD) == WEIGHTS


@pytest.mark.parametrize(("told", "per_byte"), [
    ("mem=1", 1 / 2**20), ("Mem=1M", 1 / 2**20), ("mem=2g", 2 / GIB), ("mem=1T", 1 / 2**40), ("mem=1K", 1 / 2**20),
    ("mem=.5G", 0.5 / GIB), ("mem=1e-3G", 0.001 / GIB)])
def test_units_of_memory_are_those_of_slurm_which_counts_mib(told, per_byte):
    assert dict(parse_weights(told)) == {"mem": pytest.approx(per_byte, rel=1e-12)}


@pytest.mark.parametrize("told", ["CPU", "CPU=", "CPU=lots", "=1", "CPU=-1", "CPU=nan", "CPU=1e999", "a" * 99])
def test_what_is_no_list_of_weights_is_not_known_and_the_partition_stays(told):
    [partition] = parse_partitions(f"PartitionName=p Nodes=n1 TRESBillingWeights={told}").records
    assert partition.billing_weights is None


def test_a_partition_of_scontrol_that_names_no_weights_has_none(recorded):
    partitions = parse_partitions(recorded("slurm/scontrol_show_partition_o.txt").decode()).records
    assert {one.billing_weights for one in partitions} == {()}
    assert parse_partitions(f"PartitionName=p Nodes=n1 TRESBillingWeights={TOLD}").records[0].billing_weights == WEIGHTS


@pytest.mark.parametrize(("raw", "weights"), [
    ({"name": "p", "billing_weights": TOLD}, WEIGHTS),  # up to data_parser v0.0.39
    ({"name": "p", "billing_weights": ""}, ()), ({"name": "p"}, None),
    ({"name": "p", "nodes": {}, "tres": {"billing_weights": TOLD, "configured": "cpu=8"}}, WEIGHTS),
    ({"name": "p", "nodes": {}, "tres": {"billing_weights": ""}}, ()), ({"name": "p", "nodes": {}}, None)])
def test_slurmrestd_tells_weights_by_the_names_of_its_versions(raw, weights):
    assert parse_partition(Fields(raw)).billing_weights == weights


@given(st.text(alphabet="CPUmemGRES/gpu:a100=.,0123456789 KMGT-e+", max_size=60))
def test_weights_are_never_negative_and_always_finite(text):
    assert all(0 <= weight < float("inf") for _, weight in parse_weights(text) or ())
