import pytest

from idlewatt.exporters.slurm.states import job_state, node_state
from idlewatt.storage.records import JobState, NodeState


@pytest.mark.parametrize(("words", "state"), [
    (["idle"], NodeState.UP),
    (["mixed"], NodeState.UP),
    (["ALLOCATED", "COMPLETING"], NodeState.UP),
    (["MIXED", "PLANNED"], NodeState.PLANNED),
    (["idle-"], NodeState.PLANNED),
    (["planned"], NodeState.PLANNED),
    (["idle", "DRAIN"], NodeState.DRAINED),
    (["IDLE+DRAIN"], NodeState.DRAINED),
    (["drained*"], NodeState.DOWN),
    (["mixed", "DRAIN"], NodeState.DRAINING),
    (["draining@"], NodeState.DRAINING),
    (["down*"], NodeState.DOWN),
    (["idle*"], NodeState.DOWN),
    (["DOWN", "NOT_RESPONDING"], NodeState.DOWN),
    (["idle~"], NodeState.POWERED_DOWN),
    (["IDLE", "POWERED_DOWN", "DRAIN"], NodeState.POWERED_DOWN),
    (["idle%"], NodeState.POWERED_DOWN),
    (["idle!"], NodeState.DRAINED),
    (["mixed#"], NodeState.POWERING_UP),
    (["idle^"], NodeState.POWERING_UP),
    (["maint"], NodeState.MAINTENANCE),
    (["idle$"], NodeState.MAINTENANCE),
    (["mixed", "MAINTENANCE", "RESERVED"], NodeState.DRAINING),
    (["idle", "RESERVED"], NodeState.RESERVED),
    (["mixed+"], NodeState.UP),
    (["inval"], NodeState.DOWN),
    (["future"], NodeState.UNKNOWN),
    (["SOMETHING_NEW"], NodeState.UNKNOWN),
    ([], NodeState.UNKNOWN),
    (["*"], NodeState.DOWN),
])
def test_a_node_state_with_its_suffixes_and_flags_is_folded(words, state):
    assert node_state(words) is state


@pytest.mark.parametrize(("words", "state"), [
    (["RUNNING"], JobState.RUNNING),
    (["RUNNING", "CONFIGURING"], JobState.RUNNING),
    (["FAILED", "COMPLETING"], JobState.COMPLETING),
    (["PENDING", "REQUEUED"], JobState.PENDING),
    (["REQUEUE_HOLD"], JobState.PENDING),
    (["CONFIGURING"], JobState.RUNNING),
    (["CANCELLED by 1001"], JobState.CANCELLED),
    (["OUT_OF_MEMORY"], JobState.OUT_OF_MEMORY),
    (["REVOKED"], JobState.CANCELLED),
    (["SOMETHING_NEW"], JobState.UNKNOWN),
    ([], JobState.UNKNOWN),
])
def test_a_job_state_with_its_flags_is_folded(words, state):
    assert job_state(words) is state
