"""Slurm's words for waiting in ours; what bars a start is the same as before they were translated."""

import re

import pytest

from idlewatt.exporters.slurm.fields import Fields
from idlewatt.exporters.slurm.parse_json import parse_job
from idlewatt.exporters.slurm.reasons import reason_text, wait_reason
from idlewatt.storage import former
from idlewatt.storage.eligibility import eligible
from idlewatt.storage.waiting import WaitReason

BARRED = re.compile(r"Dependency|JobHeld|Licenses|Assoc|QOS|BeginTime|JobArrayTaskLimit|Invalid|Account|^Max[A-Z]"
                    r"|PartitionTimeLimit|PartitionNodeLimit|PartitionDown|PartitionInactive|Reservation$"
                    r"|DeadLine|Cleaning|Prolog|BadConstraints|ReqNodeNotAvail|NodeDown")
WORDS = [
    "None", "Priority", "Dependency", "Resources", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown",
    "PartitionInactive", "JobHeldAdmin", "BeginTime", "Licenses", "AssociationJobLimit", "AssociationResourceLimit",
    "AssociationTimeLimit", "Reservation", "ReqNodeNotAvail", "JobHeldUser", "FrontEndDown", "SchedDefer", "DeadLine",
    "QOSUsageThreshold", "QOSJobLimit", "QOSResourceLimit", "QOSTimeLimit", "NodeDown", "BadConstraints",
    "SystemFailure", "InvalidAccount", "InvalidQOS", "Cleaning", "Prolog", "QOSNotAllowed", "AccountNotAllowed",
    "DependencyNeverSatisfied", "AssocGrpCpuLimit", "AssocMaxJobsLimit", "QOSGrpNodeLimit", "QOSGrpGRES",
    "QOSMaxGRESPerUser", "MaxGRESPerAccount", "JobArrayTaskLimit", "NodesNeeded", "Nodes_required_for_job_are_DOWN",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_bars_a_start_as_it_did_before_it_was_translated(word):
    assert wait_reason(word).bars == bool(BARRED.search(word))
    assert wait_reason(word) is former.reason_of(word)


@pytest.mark.parametrize(("word", "meaning"), [
    ("JobHeldUser", WaitReason.HELD), ("AssocGrpGRES", WaitReason.QUOTA), ("QOSMaxGRESPerUser", WaitReason.QUOTA),
    ("InvalidQOS", WaitReason.INVALID), ("ReqNodeNotAvail", WaitReason.NODES_UNAVAILABLE), ("", WaitReason.NONE),
    ("None", WaitReason.NONE), ("SomethingNew", WaitReason.OTHER)])
def test_a_word_means_one_of_our_reasons(word, meaning):
    assert wait_reason(word) is meaning


@pytest.mark.parametrize(("word", "meaning"), [
    ("PartitionConfig", WaitReason.QUEUE_LIMIT), ("ReservationDeleted", WaitReason.INVALID),
    ("JobHoldMaxRequeue", WaitReason.HELD), ("launch_failed_requeued_held", WaitReason.HELD),
    ("launch failed requeued held", WaitReason.HELD), ("job_requeued_in_held_state", WaitReason.HELD),
    ("BurstBufferResources", WaitReason.PREPARING), ("BurstBufferStageIn", WaitReason.PREPARING),
    ("BurstBufferOperation", WaitReason.PREPARING), ("PowerNotAvail", WaitReason.QUOTA),
    ("PowerReserved", WaitReason.QUOTA), ("FedJobLock", WaitReason.PREPARING)])
def test_nobody_is_advised_to_start_a_job_that_slurm_keeps_for_a_seldom_word(word, meaning):
    assert wait_reason(word) is meaning
    job = parse_job(Fields({"job_id": 7, "job_state": "PENDING", "submit_time": 10**9, "eligible_time": 10**9,
                            "state_reason": word}))
    assert not eligible(job, 1e9 + 10)


def test_no_reason_is_shown_where_slurm_writes_none():
    assert [reason_text(word) for word in ("None", "", "Priority")] == ["", "", "Priority"]


def test_an_open_dependency_is_the_reason_where_slurm_still_names_an_older_one():
    raw = {"job_id": 7, "job_state": "PENDING", "submit_time": 10**9, "state_reason": "Priority",
           "dependency": "afterok:6(unfulfilled)"}
    job = parse_job(Fields(raw, "a job"))
    assert (job.reason, job.reason_text) == (WaitReason.DEPENDENCY, "Dependency")
