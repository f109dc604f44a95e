"""Advice by agents: asked first where their word can be taken; else the heuristic's goes out, and why is told."""

import re
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.advice.advisor import Advice, AdviceInputs, Advisor
from idlewatt.daemon.advice.inference import ServedModel
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.state import Start
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.recommendations import Instead, Placement
from idlewatt.storage.records import Allocation, Job, JobState, ModelCard, Node, Partition, Request, SchedulerSnapshot

NOW, HOUR = 1_800_000_000.0, 3600.0
FIFO, SJF = "fifo+best-fit+easy", "sjf-limit+best-fit+easy"
CARD = ModelCard("agent", "1", NOW, 0, "", "", "", kind="agent")


class Agent:
    """An agent that does what a policy does, or what it is told to."""

    def __init__(self, policy: str = SJF, *, doubts=None, decide=None, reasons=("short",), **card) -> None:
        self.card = replace(CARD, **card)
        self.name = self.card.model
        self._doubts, self._reasons = doubts, reasons
        if decide is None:
            self.rules, decide = named(policy).rules, named(policy).decide
        self.decide = decide

    def doubt(self, state):
        return self._doubts

    def reasons(self, state, job):
        if isinstance(self._reasons, Exception):
            raise self._reasons
        return self._reasons

    def drift(self, state):
        return 0.25


def foresight(jobs):
    limits = np.array([job.limit_s for job in jobs], float)
    shares = {"prediction_low": 0.2, "prediction": 0.5, "prediction_high": 0.9}
    return {name: limits * shares.get(name, np.nan) for name in PREDICTED_COLUMNS}


def small_cluster(model: str = "a100") -> SchedulerSnapshot:
    """A full node; first in line is a job of ten hours, then one of an hour."""
    jobs = (Job("1", NOW - HOUR, JobState.RUNNING, "gpu", Request(8), start_s=NOW - HOUR, limit_s=2 * HOUR,
                allocations=(Allocation("dgx1", 8),)),
            Job("2", NOW - 900, JobState.PENDING, "gpu", Request(8), limit_s=10 * HOUR),
            Job("3", NOW - 600, JobState.PENDING, "gpu", Request(8), limit_s=HOUR))
    node = Node("dgx1", ("gpu",), 8, model, gpus_allocated=8)
    return SchedulerSnapshot(NOW, (node,), (Partition("gpu", ("dgx1",)),), jobs)


def advise(*served_models: ServedModel, snapshot: SchedulerSnapshot | None = None, now_s: float = NOW,
           **more) -> Advice:
    settings = AdviceSettings(policy=FIFO, shadow=())
    advice_inputs = AdviceInputs(served_models, FIFO, foresight, **more)
    return Advisor(settings, advice_inputs).advise(snapshot or small_cluster(), now_s)


def leads(agent, model: str = "agent@1") -> ServedModel:
    return ServedModel(model, True, agent)


def test_the_active_agent_speaks_first_and_the_heuristic_is_recorded_beside_it():
    advice = advise(leads(Agent()))
    assert advice.active == "agent@1"
    assert [(row.policy, row.job_id, row.shadow) for row in advice.recommendations] == [
        ("agent@1", "3", False), ("agent@1", "2", False), (FIFO, "2", True), (FIFO, "3", True)]


def test_its_advice_tells_the_change_in_wait_with_interval_its_reasons_and_what_the_heuristic_would_have_said():
    short = advise(leads(Agent())).recommendations[0]
    assert short.reasons == ("short",)
    assert short.instead == Instead(FIFO, "hold", Placement(("dgx1",), (8,)), NOW + 11 * HOUR)
    assert short.expected_start_s == NOW + HOUR
    assert -10 * HOUR < short.wait_change_s < -HOUR
    assert short.interval_s[0] < short.wait_change_s < short.interval_s[1] < 0


def test_an_active_heuristic_tells_its_change_against_the_incumbent_too_and_shadows_do_not():
    advice = advise(ServedModel("agent@1", False, Agent()))
    assert [(row.policy, row.shadow, row.wait_change_s) for row in advice.recommendations] == [
        (FIFO, False, 0.0), (FIFO, False, 0.0), ("agent@1", True, None), ("agent@1", True, None)]


def test_nothing_is_told_of_changes_when_nothing_is_to_be_drawn():
    settings = AdviceSettings(policy=FIFO, shadow=(), draws=0)
    found = Advisor(settings, AdviceInputs((leads(Agent()),), FIFO, foresight)).advise(small_cluster(), NOW)
    assert {row.wait_change_s for row in found.recommendations} == {None}


def longest_first(state):
    """Start the longest job first, so that the jobs wait longer in the mean."""
    longest = sorted(state.waiting.tolist(), key=lambda job: -state.workload.limit[job])[:1]
    return [Start(job, (0,), (8,)) for job in longest if state.arrays.nodes.free_gpus[0] == 8]


def test_an_agent_under_which_the_waiting_jobs_would_end_later_leaves_it_to_the_heuristic():
    settings = AdviceSettings(policy=SJF, shadow=())
    served_models = (leads(Agent(decide=longest_first)),)
    advice = Advisor(settings, AdviceInputs(served_models, SJF, foresight)).advise(small_cluster(), NOW)
    (result,) = advice.model_results
    assert (advice.active, result.cause) == (SJF, "later")
    assert re.fullmatch(r"the waiting jobs are expected to take \d+\.\d% longer under it", result.reason)
    assert {row.policy for row in advice.recommendations} == {SJF}


def test_an_agent_in_the_shadow_shows_what_it_would_do_though_jobs_would_end_later():
    settings = AdviceSettings(policy=SJF, shadow=())
    shadow = ServedModel("agent@1", False, Agent(decide=longest_first))
    advice = Advisor(settings, AdviceInputs((shadow,), SJF, foresight)).advise(small_cluster(), NOW)
    assert [result.cause for result in advice.model_results] == [""]
    assert {(row.policy, row.shadow) for row in advice.recommendations} == {(SJF, False), ("agent@1", True)}


def impossible(state):
    return [Start(int(state.waiting[0]), (0,), (8,))]


def nowhere(state):
    return [Start(int(state.waiting[0]), (7,), (8,))]


@pytest.mark.parametrize(("served_model", "cause", "reason"), [
    (leads(Agent(doubts="its members disagree")), "doubt", "its members disagree"),
    (ServedModel("agent@1", True, None, "digest differs"), "damaged", "digest differs"),
    (leads(Agent(known={"partition": ("cpu",)})), "unknown", "partition gpu was not there"),
    (leads(Agent(known={"gpu_model": ("v100",)})), "unknown", "GPU type a100 was not there"),
    (leads(Agent(decide=impossible)), "failed", "not enough room"),
    (leads(Agent(decide=nowhere)), "failed", "IndexError"),
    (leads(Agent(decide=lambda state: 1 / 0)), "failed", "ZeroDivisionError"),
    (leads(Agent(decide=lambda state: [Start(int(state.waiting[0]), (float("nan"),), (8,))])), "failed", "NaN"),
    (leads(Agent(decide=lambda state: None)), "failed", "TypeError"),
])
def test_an_agent_that_cannot_be_trusted_leaves_it_to_the_heuristic(served_model, cause, reason):
    advice = advise(served_model)
    assert advice.active == FIFO
    assert [(row.policy, row.shadow) for row in advice.recommendations] == [(FIFO, False)] * 2
    (result,) = advice.model_results
    assert result.cause == cause
    assert reason in result.reason


def test_what_was_there_in_training_and_what_training_does_not_tell_is_taken_as_it_comes():
    assert advise(leads(Agent(known={"partition": ("gpu",), "gpu_model": ("a100", "v100")}))).active == "agent@1"
    assert advise(leads(Agent(known={}))).active == "agent@1"
    assert advise(leads(Agent(known={"gpu_model": ("v100",)})), snapshot=small_cluster(model="")).active == "agent@1"


def test_an_agent_is_not_asked_about_a_cluster_last_seen_long_ago():
    assert advise(leads(Agent()), now_s=NOW + 60, stale_s=60).active == "agent@1"
    advice = advise(leads(Agent()), now_s=NOW + 61, stale_s=60)
    assert advice.active == FIFO
    (result,) = advice.model_results
    assert (result.cause, result.reason) == ("stale", "the scheduler was last seen 61 s ago")


def test_a_failing_shadow_costs_nobody_else_their_advice():
    advice = advise(leads(Agent()), ServedModel("b@1", False, Agent(decide=nowhere, kind="b")),
                    ServedModel("c@1", False, Agent(FIFO, kind="c")))
    assert {row.policy for row in advice.recommendations} == {"agent@1", FIFO, "c@1"}
    assert [result.cause for result in advice.model_results] == ["", "failed", ""]


def test_an_agent_that_cannot_tell_why_is_believed_without_reasons():
    advice = advise(leads(Agent(reasons=ValueError("nothing stands out"))))
    assert [row.reasons for row in advice.recommendations[:2]] == [(), ()]
    assert advice.active == "agent@1"


def test_how_far_jobs_are_from_training_is_told_even_where_it_abstains():
    assert advise(leads(Agent(doubts="strange jobs"))).model_results[0].drift == 0.25


def test_an_agent_that_learned_of_distances_on_another_network_abstains():
    nodes = {f"dgx{number}": ("leaf0", "") for number in (1, 2)}
    (node,) = small_cluster().nodes
    two = replace(small_cluster(), nodes=(replace(node, leaf="leaf0"), Node("dgx2", ("gpu",), 8, "a100", leaf="x")))
    result = advise(replace(leads(Agent()), topology=nodes), snapshot=two).model_results[0]
    assert (result.cause, result.advice) == ("unknown", None)
    assert result.reason.startswith("2 nodes hang together with others than when it was trained")
    apart = replace(leads(Agent()), topology={"dgx1": ("a", ""), "dgx2": ("b", "")})
    assert advise(apart, snapshot=two).model_results[0].advice


def test_advice_carries_the_aim_of_the_policy_that_gave_it():
    found = advise(leads(Agent(objective="utilization+jct_mean")), ServedModel("b@1", False, Agent(FIFO, kind="b")))
    aims = {row.policy: row.objective for row in found.recommendations}
    assert aims == {"agent@1": "utilization+jct_mean", FIFO: "wait", "b@1": "wait"}
