"""From what the daemon knows to what it publishes: pure functions, no state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..exporters.metrics import Published
from ..exporters.metrics.declared import ADVICE, DEGRADED, Distribution
from ..exporters.source import SourceStatus
from ..storage.finished import Finished
from ..storage.following import Following
from ..storage.history import Recording
from ..storage.power_classes import GPU_CODES, WASTED, PowerClass
from ..storage.promotions import Decision, Promotion
from ..storage.recommendations import Recommendation
from ..storage.records import JobState, SchedulerSnapshot
from ..storage.telemetry import GpuReading, Telemetry
from .adherence import adherence
from .advice.advisor import Advice
from .advice.model_roles import ModelStatus
from .advice.recommender import Recommendations
from .advice.spare import spare_nodes
from .counterfactual import Counterfactual
from .cycles import CycleHealth
from .degraded import Degradation
from .job_facts import counted_in, fared, flavour_facts, job_facts, power_and_waste, queues
from .learning.training_scheduler import TrainingStatus
from .recall import Recall
from .waste import Assessment, GpuVerdict
from .waste.domains import domain_states, domain_totals

STATISTICS, BOUNDS = ("mean", "p99"), ("estimate", "low", "high")
EMPTY_NODES = {"on": "energy", "down": "energy_down"}
"""What judged energy is called, by what becomes of empty nodes."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Known:
    """Everything the daemon knows at one moment; a cycle replaces its part, a reader takes the whole."""

    telemetry: Telemetry = Telemetry()
    snapshot: SchedulerSnapshot | None = None
    assessment: Assessment | None = None
    energy_joules: Mapping[tuple[str, PowerClass], float] = field(default_factory=dict)
    unmeasured_seconds: Mapping[str, float] = field(default_factory=dict)
    advice: Advice | None = None
    recommended: Mapping[str, Recommendations] = field(default_factory=dict)
    """The last rows, by recommender."""
    following: tuple[Following, ...] = ()
    """How runs compare with the advice on them, since the database began."""
    communication: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Cost of running jobs' placements by partition, ``actual`` or ``advised``."""
    database_bytes: float | None = None
    counterfactual: Counterfactual = Counterfactual()
    learned: ModelStatus = ModelStatus()
    training: TrainingStatus = TrainingStatus()
    waits: Mapping[tuple[str, ...], Distribution] = field(default_factory=dict)
    """How long jobs really waited, since the daemon's start."""
    fared: Mapping[str, tuple[Finished, ...]] = field(default_factory=dict)
    """How the jobs of the last day and week fared."""
    old: bool = False
    """Whether the scheduler has not been read for too long, so that all that it reported is the past."""


@dataclass(frozen=True, slots=True)
class Process:
    """How the daemon itself fares."""

    sources: tuple[SourceStatus, ...] = ()
    cycles: Mapping[str, CycleHealth] = field(default_factory=dict)
    advice_interval_s: float | None = None
    pue: float | None = None
    currency: str = ""
    per_kwh: float | None = None
    grams_per_kwh: float | None = None
    """What a kWh costs and means now."""
    reloaded: bool = True
    """Whether the last reload of the configuration succeeded."""
    loaded_s: float | None = None
    roles: tuple[tuple[str, str], ...] = ()
    """Policy and what it is to us: incumbent, active, shadow."""
    degraded: tuple[Degradation, ...] = ()
    """What is wrong with what is known."""
    job_series: int = 0
    """Running jobs that are published one by one."""
    recording: Recording = Recording()
    """Whether the history can be written, and what waits for it."""
    notices: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """Notices of the last weeks by rule, stage and state."""


def published(known: Known, process: Process, recall: Recall | None = None) -> Published:
    """Return the facts of the metrics page; what rests on the same facts as last time is the same object."""
    recalled = recall or Recall()
    facts = _daemon(known, process) | _advice(known) | _simulated(known.counterfactual) | _training(known.training)
    facts |= _spare(known) | _learned(known.learned) | _held_out(known.learned.judged) | _recommended(known.recommended)
    facts["gpu_error_info"] = recalled(_errors, known.telemetry)
    assessment = known.assessment
    if assessment is not None:
        facts |= recalled(_watts, assessment, known.energy_joules, known.unmeasured_seconds)
        facts |= recalled(_wasters, assessment) | recalled(_gpus, assessment)
        facts |= recalled(job_facts, assessment, known.snapshot, process.job_series)
        facts |= recalled(flavour_facts, assessment, known.snapshot)
    facts["job_wait_seconds"] = known.waits
    if known.snapshot is not None and not known.old:
        facts |= recalled(_scheduled, known.snapshot) | fared(known.fared)
    return Published(**facts)


def _errors(telemetry: Telemetry) -> dict[tuple[str, ...], float]:
    """Return the last error of each GPU that has had one."""
    return {(*place, str(gpu.detail.xid)): 1.0
            for gpu, place in zip(telemetry.gpus, _gpu_places(telemetry.gpus), strict=True) if gpu.detail.xid}


def _gpu_places(gpus: Sequence[GpuReading] | Sequence[GpuVerdict]) -> list[tuple[str, str]]:
    """Return node and number of each GPU; in place of a number that two GPUs of a node have, the UUID.

    The drivers of two vendors count from 0 each, and so may two exporters.
    """
    counts = Counter((node, index) for node, index, _ in {(gpu.node, gpu.index, gpu.uuid) for gpu in gpus})
    return [(gpu.node, gpu.uuid if gpu.uuid and counts[gpu.node, gpu.index] > 1 else str(gpu.index)) for gpu in gpus]


def _scheduled(snapshot: SchedulerSnapshot) -> dict[str, Any]:
    """Return what the scheduler says of jobs and nodes."""
    nodes = {(node.name, partition): 1.0 for node in snapshot.nodes if node.gpus for partition in node.partitions}
    return {"pending_jobs": _pending(snapshot), "node_info": nodes} | queues(snapshot) | _domains(snapshot)


def _watts(assessment: Assessment, energy_joules: Mapping[tuple[str, PowerClass], float],
           unmeasured_seconds: Mapping[str, float]) -> dict[str, object]:
    power = {(partition, power_class.value): watts for partition, classes in assessment.totals.items()
             for power_class, watts in classes.items()}
    wasted = {reason.value for reason in WASTED}
    energy = {(partition, power_class.value): joules
              for (partition, power_class), joules in energy_joules.items()}
    return {
        "partitions": assessment.partitions,
        "power_watts": power,
        "wasted_power_watts": {key: watts for key, watts in power.items() if key[1] in wasted},
        "energy_joules_total": energy,
        "wasted_energy_joules_total": {key: joules for key, joules in energy.items() if key[1] in wasted},
        "node_power_watts": {(node.node, node.source): node.wall_watts for node in assessment.nodes},
        "unaccounted_power_watts": assessment.unaccounted_watts,
        "host_unused_watts": assessment.unused_overhead_watts,
        "power_source_disagreement_watts": assessment.disagreement_watts,
        "gpu_idle_floor_watts": {(model, floor.source): floor.watts for model, floor in assessment.floors.items()},
        "unmeasured_seconds_total": dict(unmeasured_seconds),
        **_enclosures(assessment),
    }


def _enclosures(assessment: Assessment) -> dict[str, object]:
    racks = assessment.enclosures
    return {
        "enclosure_power_watts": {(rack.name, part): watts for rack in racks for part, watts in rack.parts.items()},
        "enclosure_node_power_watts": {(rack.name, node): watts for rack in racks
                                       for node, watts in rack.nodes.items()},
        "enclosure_disagreement_watts": {rack.name: rack.disagreement_watts for rack in racks},
    }


def _domains(snapshot: SchedulerSnapshot) -> dict[str, object]:
    states, lost = domain_states(snapshot.nodes)
    in_all, lost_in_all = domain_totals(snapshot.nodes)
    return {"cluster_nvlink_domains": {state: float(count) for state, count in in_all.items()},
            "cluster_nvlink_domain_broken_gpus": None if lost_in_all is None else float(lost_in_all),
            "nvlink_domains": {place: float(count) for place, count in states.items()},
            "nvlink_domain_broken_gpus": {partition: float(count) for partition, count in lost.items()}}


def _wasters(assessment: Assessment) -> dict[str, object]:
    """Return wasted watts by node and, of what jobs hold, by user."""
    held, users = power_and_waste(((gpu.user, gpu.partition), gpu) for gpu in assessment.gpu_verdicts if gpu.user)
    largest = sorted(users.items(), key=lambda row: (-row[1], row[0]))
    return {"node_wasted_power_watts": assessment.wasted_by_node, "user_wasted_power_watts": dict(largest),
            "user_power_watts": dict(sorted(held.items(), key=lambda row: (-row[1], row[0])))}


def _pending(snapshot: SchedulerSnapshot) -> dict[tuple[str, str], float]:
    """Return waiting jobs by partition and reason."""
    waiting: Counter[tuple[str, str]] = Counter()
    for job in snapshot.jobs:
        if job.state is JobState.PENDING:
            waiting[counted_in(job), job.reason or "none"] += job.tasks
    return {key: float(count) for key, count in waiting.items()}


def _gpus(assessment: Assessment) -> dict[str, object]:
    bases = ("limit", "actual")
    places = _gpu_places(assessment.gpu_verdicts)
    return {
        "gpus": _flat(assessment.gpus),
        "allocated_gpus": {partition: float(count) for partition, count in assessment.allocated_gpus.items()},
        "node_gpus": _flat(assessment.node_gpus),
        "gpu_state": {place: float(GPU_CODES[gpu.state])
                      for gpu, place in zip(assessment.gpu_verdicts, places, strict=True)},
        "stranded_gpus": _flat(assessment.stranded),
        "fragmentation_ratio": dict(assessment.fragmentation),
        "utilization_ratio": {(partition, basis): getattr(used, basis)
                              for partition, used in assessment.utilization.items() for basis in bases},
        "paper_inefficient_power_watts": {(partition, basis): used.inefficient_watts(basis)
                                          for partition, used in assessment.utilization.items() for basis in bases},
        "unmeasured_gpus": {partition: float(count) for partition, count in assessment.unmeasured_gpus.items()},
        "unmeasured_hosts": {partition: float(count) for partition, count in assessment.unmeasured_hosts.items()},
        "unmeasured_busy_hosts": {partition: float(count)
                                  for partition, count in assessment.unmeasured_busy_hosts.items()},
        "outside_scheduler_since_timestamp_seconds": {
            place: gpu.since_s for gpu, place in zip(assessment.gpu_verdicts, places, strict=True)
            if gpu.state is PowerClass.OUTSIDE_SCHEDULER},
    }


def _flat(counts: Mapping[str, Mapping[Any, int]]) -> dict[tuple[str, ...], float]:
    return {(place, str(state)): float(count) for place, states in counts.items() for state, count in states.items()}


def _advice(known: Known) -> dict[str, object]:
    advice = known.advice
    if advice is None:
        return {}
    metrics = {
        "advice_timestamp_seconds": dict.fromkeys(advice.policies, advice.issued_s),
        "advice_snapshot_timestamp_seconds": dict.fromkeys(advice.policies, advice.snapshot_s),
        **adherence(known.following),
        "start_forecasts_total": {labels: float(count) for labels, count in advice.came.items()},
    }
    if advice.withdrawn:
        return metrics
    return metrics | _in_force(advice) | {"communication_cost": dict(known.communication)}


def _in_force(advice: Advice) -> dict[str, object]:
    """Return advice that may be followed."""
    active = [row for row in advice.recommendations if not row.shadow][:ADVICE]
    return {
        "advice_info": dict.fromkeys(_placements(advice.recommendations), 1.0),
        "advice_reason_info": {(row.policy, row.job_id, row.action, row.reason): 1.0 for row in active},
        "advice_expected_start_timestamp_seconds": {
            (row.policy, row.job_id): row.expected_start_s for row in active if row.action == "hold"},
        "advice_speedup_ratio": {(row.policy, row.job_id): 1 / other.relative_speed
                                 for row in active for other in row.alternatives if other.relative_speed},
    }


def _spare(known: Known) -> dict[str, object]:
    """Return the nodes that are worth powering down, as far as they are known to be idle."""
    verdicts = {node.node: node for node in known.assessment.nodes} if known.assessment is not None else {}
    advised = known.advice.power_down if known.advice is not None and not known.advice.withdrawn else {}
    worth = spare_nodes(advised, verdicts).worth
    return {"power_down_info": dict.fromkeys(worth, 1.0)}


def _recommended(recommended: Mapping[str, Recommendations]) -> dict[str, Any]:
    metrics = {name: value for recommendation in recommended.values() for name, value in recommendation.metrics.items()}
    return metrics | {
        "recommendation_rows": {name: float(len(recommendation.rows)) for name, recommendation in recommended.items()
                         if not recommendation.withdrawn},
        "recommendation_timestamp_seconds": {name: recommendation.issued_s
                                             for name, recommendation in recommended.items()}}


def _placements(rows: Iterable[Recommendation]) -> list[tuple[str, ...]]:
    """Return the labels of placements to start now, a series per node, of the active policy only."""
    labels: list[tuple[str, ...]] = [
        (row.policy, row.objective, row.job_id, node, str(gpus))
        for row in rows if row.placement and row.action == "start" and not row.shadow
        for node, gpus in zip(row.placement.nodes, row.placement.gpus, strict=True)]
    return labels[:ADVICE]


def _simulated(counterfactual: Counterfactual) -> dict[str, object]:
    return {"simulated_energy_joules_total": dict(counterfactual.joules),
            "simulation_energy_error_ratio": counterfactual.error_ratio,
            "simulated_wait_seconds_total": dict(counterfactual.wait_s),
            "simulation_wait_error_ratio": counterfactual.wait_error_ratio}


def _learned(status: ModelStatus) -> dict[str, object]:
    decided = Counter(decision.decision.value for decision in status.decisions)
    return {
        "promotions_total": {kind.value: float(decided[kind.value]) for kind in Decision},
        "abstaining": {model: float(model in status.silent) for model in status.called},
        "abstentions_total": {key: float(rounds) for key, rounds in status.abstained.items()},
        "candidate_info": {(candidate.name, candidate.state, candidate.reason): 1.0 for candidate in status.candidates},
        "candidate_jct_ratio": {(candidate.name, bound): getattr(candidate, bound) for candidate in status.candidates
                                for bound in BOUNDS},
        "drift_ratio": dict(status.drift),
        "regret_ratio": {policy: regret.ratio for policy, regret in status.regrets.items()},
        "regret_streak": {policy: float(regret.streak) for policy, regret in status.regrets.items()},
        "model_info": {(model, card.version): 1.0 for model, card in status.cards.items()},
        "model_trained_timestamp_seconds": {model: card.trained_s for model, card in status.cards.items()},
        "training_score_ratio": {(model, f"{done:.2f}"): score for model, card in status.cards.items()
                                 for done, score in card.curve},
    }


def _held_out(judged: Promotion | None) -> dict[str, object]:
    """Return how everybody did when an agent was judged last."""
    if judged is None:
        return {}
    rows = {row["policy"]: row for row in judged.figures["rows"]}
    return {
        "heldout_jct_seconds": {(policy, statistic): row[f"jct_{statistic}_s"] for policy, row in rows.items()
                                for statistic in STATISTICS},
        "heldout_wait_seconds": {(policy, statistic): row[f"wait_{statistic}_s"] for policy, row in rows.items()
                                 for statistic in STATISTICS},
        "heldout_utilization_ratio": {policy: row["utilization"] for policy, row in rows.items()
                                      if "utilization" in row},
        "heldout_makespan_seconds": {policy: row["makespan_s"] for policy, row in rows.items() if "makespan_s" in row},
        "heldout_jct_ratio": {(policy, bound): row["jct_ratio"][bound] for policy, row in rows.items()
                              for bound in BOUNDS},
        "heldout_energy_joules": {(policy, empty): row[f"{name}_joules"] for policy, row in rows.items()
                                  for empty, name in EMPTY_NODES.items() if f"{name}_joules" in row},
        "heldout_energy_ratio": {(policy, empty, bound): row[f"{name}_ratio"][bound] for policy, row in rows.items()
                                 for empty, name in EMPTY_NODES.items() if f"{name}_ratio" in row
                                 for bound in BOUNDS},
        "heldout_timestamp_seconds": judged.time_s,
    }


def _training(status: TrainingStatus) -> dict[str, object]:
    return {
        "training_running": float(status.running),
        "training_runs_total": {result: float(count) for result, count in status.runs.items()},
        "training_last_success_timestamp_seconds": status.last_success_s,
    }


def _daemon(known: Known, process: Process) -> dict[str, Any]:
    read = [source for source in process.sources if source.reads]  # one that nobody asks for has not failed
    return {
        "up": {source.name: float(source.success) for source in read},
        "collector_duration_seconds": {source.name: source.duration_s for source in read},
        "unreadable_records": {source.name: source.skipped for source in read},
        "last_success_timestamp_seconds": {source.name: source.last_success_s for source in process.sources},
        "cycle_duration_seconds": {name: cycle.last_duration_s for name, cycle in process.cycles.items()},
        "cycle_overruns_total": {name: float(cycle.overruns) for name, cycle in process.cycles.items()},
        "cycle_failures_total": {name: float(cycle.failures) for name, cycle in process.cycles.items()},
        "cycle_last_run_timestamp_seconds": {name: cycle.ended_at_s for name, cycle in process.cycles.items()},
        "advice_interval_seconds": process.advice_interval_s,
        "pue_ratio": process.pue,
        "electricity_price": {process.currency: process.per_kwh},
        "carbon_intensity": process.grams_per_kwh,
        "policy_info": dict.fromkeys(process.roles, 1.0),
        "recorder_backlog_records": float(process.recording.backlog),
        "recorder_backlog_bytes": float(process.recording.backlog_bytes),
        "recorder_dropped_records_total": float(process.recording.dropped),
        "database_size_bytes": known.database_bytes,
        "notices": process.notices,
        "config_last_reload_successful": float(process.reloaded),
        "config_last_reload_success_timestamp_seconds": process.loaded_s,
        **_degraded(process.degraded),
    }


def _degraded(degradations: tuple[Degradation, ...]) -> dict[str, object]:
    """Return how many things are wrong by cause, and since when the first of them is."""
    since: dict[str, float] = {}
    for condition in degradations:
        if condition.since_s is not None:
            since[condition.cause] = min(since.get(condition.cause, condition.since_s), condition.since_s)
    counts = Counter(condition.cause for condition in degradations)
    return {"degraded": {cause: float(counts[cause]) for cause in DEGRADED},
            "degraded_since_timestamp_seconds": since}
