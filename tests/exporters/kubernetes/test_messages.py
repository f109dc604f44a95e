"""Why pods and workloads wait, from messages that schedulers really wrote."""

from pathlib import Path

import pytest

from idlewatt.exporters.kubernetes.messages import parts_of, pod_reason, shortened, wanted_resource, workload_reason
from idlewatt.storage.waiting import WaitReason

RECORDED = Path(__file__).parents[2] / "recorded" / "kubernetes" / "pod_scheduled.tsv"
ROWS = [line.split("\t") for line in RECORDED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("meaning", "message"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_each_message_that_somebody_reported_has_its_word(meaning, message):
    assert pod_reason("Unschedulable", message) == meaning


@pytest.mark.parametrize(("reason", "message", "meaning"), [
    ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", WaitReason.HELD),
    ("", "", WaitReason.NONE),
    ("Unschedulable", 'persistentvolumeclaim "data" not found', WaitReason.INVALID),
    ("Unschedulable", "0/4 nodes are available: 4 node(s) had volume node affinity conflict.", WaitReason.CONSTRAINT),
    ("Unschedulable", "0/0 nodes are available: no nodes available to schedule pods.", WaitReason.NODES_UNAVAILABLE),
    ("Unschedulable", "something new", WaitReason.OTHER)])
def test_what_the_condition_says_without_counting_nodes_has_its_word(reason, message, meaning):
    assert pod_reason(reason, message) is meaning


def test_a_message_is_taken_apart_by_nodes_and_reasons_and_taints_may_hold_commas():
    message = ("0/9 nodes are available: 2 node(s) had untolerated taint {a: x, y}, 7 Insufficient nvidia.com/gpu. no "
               "new claims to deallocate, preemption: 0/9 nodes are available: 9 No preemption victims.")
    assert parts_of(message) == [
        (2, "node(s) had untolerated taint {a: x, y}"), (7, "Insufficient nvidia.com/gpu")]
    assert shortened("0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 x") == \
        "0/1 nodes are available: 1 Too many pods"


@pytest.mark.parametrize("message", [
    "0/1 nodes are available: " + "1 x, " * 100_000, "0/1 nodes are available: {" * 9999, "9" * 100_000,
    "preemption: " * 10_000, ". " * 50_000, "\x00\ud800"], ids=range(6))
def test_hostile_messages_take_no_time_and_are_no_reason(message):
    assert pod_reason("Unschedulable", message) in WaitReason
    assert len(shortened(message)) <= 300


@pytest.mark.parametrize(("reason", "message", "meaning"), [
    # Reasons as of KEP 10852.
    ("TopologyPlacementFailed", "", WaitReason.TOPOLOGY), ("WaitingForQuota", "", WaitReason.QUOTA),
    ("ExceedsMaxQuota", "", WaitReason.INVALID), ("PendingEvaluation", "", WaitReason.PRIORITY),
    ("OnHold", "", WaitReason.HELD), ("NoMatchingFlavor", "", WaitReason.CONSTRAINT),
    ("WaitingForPreemptedWorkloads", "", WaitReason.RESOURCES),
    # Messages from before; those with a number are from issues of kubernetes-sigs/kueue.
    ("Pending", "couldn't assign flavors to pod set main: no topology domains at level: "
                "oci.oraclecloud.com/rdma.local_block_id", WaitReason.TOPOLOGY),  # 5039
    ("Pending", 'couldn\'t assign flavors to pod set main: topology "default" allows to fit only 3 out of 4 pod(s)',
     WaitReason.TOPOLOGY),
    ("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor "
                "default-flavor, 8 more needed", WaitReason.QUOTA),  # 9048
    ("Pending", "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor x86, request > maximum "
                "capacity (9 > 4)", WaitReason.INVALID),
    ("Inadmissible", "ClusterQueue research is inactive", WaitReason.INVALID),
    ("", "", WaitReason.PRIORITY)])
def test_each_word_of_kueue_has_ours(reason, message, meaning):
    assert workload_reason(reason, message, enough=False) is meaning


def test_a_quota_that_is_as_large_as_the_nodes_is_no_limit():
    message = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a, 8"
    assert wanted_resource(message) == "nvidia.com/gpu"
    assert workload_reason("Pending", message, enough=True) is WaitReason.RESOURCES
