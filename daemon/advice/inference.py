"""Ask trained models for their decisions where these can be trusted, and say why a model abstains elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...storage.records import JobState, ModelCard, SchedulerSnapshot
from ..agents.kinds import FAILURES, TrainedPolicy
from ..replay.engine import Policy
from ..replay.site_speeds import FLAT_SPEEDS, SiteSpeeds, moved
from ..replay.state import ClusterState
from .diagnosis import Diagnosis
from .policy_advice import PolicyAdvice
from .wait_estimate import PolicyComparison, WaitChange, compared, futures

LATER = 0.01
"""An agent abstains where the waiting jobs are expected to take longer under it by more than this share. As much is
allowed by the promotion criteria: an agent may have become active because it saves energy."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """An agent that advises, active or in the shadow."""

    model: str
    """``kind@version``."""
    active: bool
    agent: TrainedPolicy | None
    """None when its files cannot be used."""
    fault: str = ""
    topology: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Leaf and spine switch by node, where it was trained with speeds that go by them."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """What it was trained with; agents that go by speeds abstain without."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The state that agents decide on."""

    state: ClusterState
    snapshot: SchedulerSnapshot
    diagnosis: Diagnosis
    now_s: float
    stale_s: float
    """An agent gives no advice on a cluster that was last read longer ago."""
    incumbent: Policy | None = None
    """The policy that changes in wait are measured against."""
    draws: int = 0


@dataclass(frozen=True, slots=True)
class ModelAdvice:
    """An agent's answer, and what following it is expected to change in waiting, by row of the state."""

    agent: TrainedPolicy
    answer: PolicyAdvice
    changes: Mapping[int, WaitChange]


@dataclass(frozen=True, slots=True)
class ModelResult:
    """An agent's advice, or why it abstains."""

    served_model: ServedModel
    advice: ModelAdvice | None = None
    drift: float | None = None
    cause: str = ""
    """Why it abstains, one of ``storage.promotions.CAUSES``; empty when it answered."""
    reason: str = ""


def ask_model(served_model: ServedModel, context: DecisionContext) -> ModelResult:
    """Return an agent's advice, or the reason that it must abstain."""
    if served_model.agent is None:
        return ModelResult(served_model, cause="damaged", reason=served_model.fault)
    age_s = context.now_s - context.snapshot.time_s
    if age_s > context.stale_s:
        return ModelResult(served_model, cause="stale", reason=f"the scheduler was last seen {age_s:.0f} s ago")
    strange = _unknown(served_model.agent.card, context.snapshot) or _elsewhere(served_model, context.snapshot)
    if strange:
        return ModelResult(served_model, cause="unknown", reason=strange)
    try:
        return _model_result(served_model, served_model.agent, context)
    except FAILURES as error:
        return ModelResult(served_model, cause="failed", reason=f"{type(error).__name__}: {error}")


def _model_result(served_model: ServedModel, agent: TrainedPolicy, context: DecisionContext) -> ModelResult:
    drift, doubt = agent.drift(context.state), agent.doubt(context.state)
    if doubt is not None:
        return ModelResult(served_model, drift=drift, cause="doubt", reason=doubt)
    answer = PolicyAdvice(context.state, agent, context.diagnosis)
    comparison = expected(agent, context) if served_model.active else PolicyComparison()
    if (later := why_later(comparison)) is not None:
        return ModelResult(served_model, drift=drift, cause="later", reason=later)
    return ModelResult(served_model, ModelAdvice(agent, answer, comparison.waits), drift)


def expected(policy: Policy, context: DecisionContext) -> PolicyComparison:
    """Return what a policy is expected to change for the waiting jobs against the incumbent."""
    if context.incumbent is None:
        return PolicyComparison()
    return compared(context.state, policy, context.incumbent, futures(context.state, context.draws))


def why_later(comparison: PolicyComparison) -> str | None:
    """Return that the waiting jobs are expected to end later under an agent; None where they are not.

    An agent that is better on the whole can be worse for the queue that waits now.
    """
    later = comparison.completion_ratio - 1
    return f"the waiting jobs are expected to take {later:.1%} longer under it" if later > LATER else None


def reasons(agent: TrainedPolicy, state: ClusterState, row: int) -> tuple[str, ...]:
    """Return what moved an agent most in a job's case; nothing when it cannot tell."""
    try:
        return agent.reasons(state, row)
    except FAILURES:
        return ()


def _elsewhere(served_model: ServedModel, snapshot: SchedulerSnapshot) -> str:
    """Return which nodes hang together with others than in training, where it learned by that; '' when none does."""
    nodes = sorted(set(moved(served_model.topology, {node.name: (node.leaf, node.spine) for node in snapshot.nodes})))
    return (f"{len(nodes)} nodes hang together with others than when it was trained with the speeds that these gave: "
            f"{', '.join(nodes[:3])}") if nodes else ""


def _unknown(card: ModelCard, snapshot: SchedulerSnapshot) -> str:
    """Return what there is that was not there in training: partitions where jobs wait, GPU types; '' when nothing."""
    waiting = [job for job in snapshot.jobs if job.state is JobState.PENDING]
    partitions = {name for job in waiting for name in job.partition.split(",") if name}
    models = {node.gpu_model for node in snapshot.nodes if node.gpu_model}
    for present, kind, known in ((partitions, "partition", card.known.get("partition", ())),
                                 (models, "GPU type", card.known.get("gpu_model", ()))):
        strange = sorted(present - set(known)) if known else []
        if strange:
            return f"{kind} {', '.join(strange[:3])} was not there when it was trained"
    return ""
