"""Publish what idlewatt knows as Prometheus metrics: one table of metrics, one stateless collector.

``Published`` is that table: each of its fields is a metric, named ``idlewatt_`` + the field. To add a metric, add a
field. The daemon fills one at each cycle; every scrape builds its page anew from the latest, so what has vanished
leaves no stale series. Units are in the names: W, J, s, bytes, ratios 0..1.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any, Literal

from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from ..storage.power_classes import GPU_CLASSES, GPU_CODES, NODE_STATES, WASTED, PowerClass
from ..storage.records import StrandedCause
from ..storage.waiting import WaitReason

PREFIX = "idlewatt_"

Scalar = float | None
Series = Mapping[str, float | None] | Mapping[tuple[str, ...], float | None]
"""Values by label: a string for one label, a tuple in the declared order for several. None is not published."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often a value was at most each of ``BUCKETS_S``, and how often in all, with the sum of the values."""

    counts: tuple[int, ...]
    total: float


BUCKETS_S = (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 259200.0, 604800.0)
"""Upper bounds of waits in seconds; the last count of a distribution has none."""
Distributions = Mapping[tuple[str, ...], Distribution]

DEGRADED = ("scheduler_unread", "database_behind", "source_down", "source_slow", "targets_down", "targets_slow",
            "cycle_overrun", "cycle_failing", "unmeasured", "clock_step", "notices_behind")
"""What may be wrong with what the daemon knows, what an operator should see first first."""

LONGEST_LABEL = 256
"""Characters of a label value that are kept: job names and reasons come from users."""

BUILD = {"version": version("idlewatt"), "revision": "", "branch": "", "python_version": platform.python_version()}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a metric is: its kind, help and labels, and how many series of it may ever be on one page."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    cap: int
    known: tuple[str, ...]
    """Values of the last label that are always there, 0 where nothing is given."""


def _metric(kind: Literal["gauge", "counter"], text: str, *labels: str, cap: int = 1,
            known: Iterable[str] = ()) -> object:
    return field(default_factory=dict if labels else _nothing,
                 metadata={"kind": kind, "help": text, "labels": labels, "cap": cap, "known": tuple(known)})


def _nothing() -> None:
    """Return the value of a metric that is not known (yet)."""


def _gauge(text: str, *labels: str, cap: int = 1, known: Iterable[str] = ()) -> Any:
    return _metric("gauge", text, *labels, cap=cap, known=known)


def _counter(text: str, *labels: str, cap: int = 1, known: Iterable[str] = ()) -> Any:
    return _metric("counter", text, *labels, cap=cap, known=known)


def _histogram(text: str, *labels: str, cap: int) -> Any:
    return field(default_factory=dict, metadata={"kind": "histogram", "help": text, "labels": labels, "cap": cap,
                                                 "known": ()})


def _rows_in_words(rows: Iterable[PowerClass]) -> str:
    return ", ".join(f"{row} ({row.label})" for row in rows)


# Caps: a site of 100 partitions and 10,000 nodes fits; beyond that something upstream is lying.
PARTITIONS, NODES, POLICIES, COLLECTORS = 100, 10_000, 50, 500
ADVICE = 50
SUBJECTS = 20
USERS = 200
JOBS = 100
WAITS = 500
FLAVOURS, QUEUES = 500, 50
"""Flavours of partitions, and users whose queues are told."""
NOTICES = 500


@dataclass(frozen=True, slots=True)
class Published:
    """Everything on our page at one moment. Absent is unmeasured; the classes, states and causes of every partition
    in ``partitions`` are published even when nothing is in them, so that a rule never divides by an absent series.
    """

    partitions: tuple[str, ...] = ()
    """The partitions that have been assessed. No metric by itself."""

    # Where the watts are
    power_watts: Series = _gauge(
        "Power by class in watts; the classes add up to the power of all nodes. GPU power from DCGM, the rest of a "
        "node from IPMI, Redfish or hwmon; where GPUs are not measured all the rest of their node is unmeasured. "
        f"Classes: {_rows_in_words(PowerClass)}.",
        "partition", "class", cap=PARTITIONS * len(PowerClass), known=PowerClass)
    wasted_power_watts: Series = _gauge(
        "Power that does no work, by reason, in watts; a subset of idlewatt_power_watts, and a lower bound while "
        "anything is unmeasured.",
        "partition", "reason", cap=PARTITIONS * len(WASTED), known=WASTED)
    energy_joules_total: Series = _counter(
        "Energy by class in joules since the daemon's start, integrated from idlewatt_power_watts without "
        "crossing gaps.", "partition", "class", cap=PARTITIONS * len(PowerClass), known=PowerClass)
    wasted_energy_joules_total: Series = _counter(
        "Energy that did no work, by reason, in joules; never revised.",
        "partition", "reason", cap=PARTITIONS * len(WASTED), known=WASTED)
    node_power_watts: Series = _gauge(
        "Power of a node in watts. source says where it was read: at the wall by ipmi, redfish, hwmon or ceems; "
        "modules is what the superchips of a Grace tray draw, without the rest of it; estimated is its GPUs and the "
        "configured or last known draw of the rest, gpus its GPUs alone.",
        "node", "source", cap=NODES)
    node_wasted_power_watts: Series = _gauge(
        "Part of a node's power that does no work, in watts: its GPUs' and, while it is empty, its host's; absent "
        "where nothing of it is known to be wasted and not all is measured.",
        "node", cap=NODES)
    user_wasted_power_watts: Series = _gauge(
        "Power that does no work on GPUs that a user's jobs hold, in watts; the largest first.", "user", "partition",
        cap=USERS)
    user_power_watts: Series = _gauge(
        "Power of the GPUs that a user's jobs hold, in watts; the largest first.", "user", "partition", cap=USERS)
    node_info: Series = _gauge("Partitions that a node with GPUs serves, a series for each; always 1.", "node",
                               "partition", cap=2 * NODES)
    job_power_watts: Series = _gauge(
        "Power of the GPUs that a job holds, in watts: of the running jobs that waste most, as many as "
        "waste.job_series says.", "job_id", "partition", "user", "account", "flavour", cap=JOBS)
    job_wasted_power_watts: Series = _gauge(
        "Part of it that does no work, in watts, of the same jobs.", "job_id", "partition", "user", "account",
        "flavour", cap=JOBS)
    job_start_timestamp_seconds: Series = _gauge(
        "When these jobs started, in seconds since the epoch.", "job_id", "partition", "user", "account", "flavour",
        cap=JOBS)
    flavour_power_watts: Series = _gauge(
        "Power of the GPUs that jobs hold, in watts, by the flavour of the job: a configured one, or its size.",
        "partition", "flavour", cap=FLAVOURS)
    flavour_wasted_power_watts: Series = _gauge(
        "Part of it that does no work, in watts.", "partition", "flavour", cap=FLAVOURS)
    unaccounted_power_watts: Scalar = _gauge(
        "Power of all nodes less the sum of all classes, in watts: 0 unless the accounting is broken.")
    host_unused_watts: Series = _gauge(
        "Part of class host_active in watts that belongs to the GPUs of busy nodes that no job holds: a host that runs "
        "one of eight GPUs is on for all. With class node_overhead_empty it is what hosts draw for free GPUs, however "
        "jobs are spread.", "partition", cap=PARTITIONS)
    power_source_disagreement_watts: Scalar = _gauge(
        "GPU power in excess of the wall meter, summed over nodes, in watts: meters average over a window.")
    gpu_idle_floor_watts: Series = _gauge(
        "Power of a GPU that does nothing, in watts; floor_source is learned, configured or catalogue.",
        "model", "floor_source", cap=300)
    pue_ratio: Scalar = _gauge(
        "Power usage effectiveness of the site as configured; multiplies nothing here.")

    electricity_price: Series = _gauge(
        "What a kWh costs now by the configured prices, file or metric; below 0 where it is paid to use it. Not there "
        "while nobody knows.", "currency")
    carbon_intensity: Scalar = _gauge(
        "Carbon dioxide equivalents that a kWh of the grid means now, in grams. Not there while nobody knows.")

    # What the GPUs are doing
    gpus: Series = _gauge(
        "GPUs by state (the power class of the GPU). Allocation from the scheduler, activity from DCGM.",
        "partition", "state", cap=PARTITIONS * len(PowerClass), known=GPU_CLASSES)
    node_gpus: Series = _gauge(
        "GPUs of a node by state. Allocation from the scheduler; one sample per state for every node.",
        "node", "state", cap=NODES * len(NODE_STATES), known=NODE_STATES)
    gpu_state: Series = _gauge(
        "State of a GPU as a number: " + ", ".join(f"{code} {state}" for state, code in GPU_CODES.items()) + ". "
        "Allocation from the scheduler, activity from DCGM.", "node", "gpu", cap=NODES * 8)
    stranded_gpus: Series = _gauge(
        "Free GPUs that no eligible pending job can use, by the constraint that binds first. From the scheduler.",
        "partition", "cause", cap=PARTITIONS * len(StrandedCause), known=StrandedCause)
    pending_jobs: Series = _gauge(
        "Jobs that wait, by reason (resources, priority, quota, held, ...; none where the scheduler names none); each "
        "task of an array counts.", "partition", "reason", cap=PARTITIONS * len(WaitReason))
    job_wait_seconds: Distributions = _histogram(
        "Real waits of jobs in seconds, from when they could start until they first did, by partition, account and "
        "GPUs asked for; of those that started since the daemon did. Accounts beyond the first 40 are (other).",
        "partition", "account", "gpus", cap=WAITS)
    jobs: Series = _gauge(
        "Jobs by what they do now: queued or running, each task of an array. From the scheduler.",
        "partition", "flavour", "state", cap=2 * FLAVOURS)
    user_queued_jobs: Series = _gauge(
        "Jobs that a user has in the queue, each task of an array; the 50 longest queues.", "user", "partition",
        cap=QUEUES)
    user_queued_gpus: Series = _gauge("GPUs that the jobs in these queues ask for.", "user", "partition", cap=QUEUES)
    finished_jobs: Series = _gauge(
        "Jobs that ran and ended within the last day (1d) or week (7d), those that were requeued left out; from the "
        "recorded history, as all means over them.", "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_wait_mean_seconds: Series = _gauge(
        "Mean wait of these jobs in seconds, from when they could start until they did.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_run_mean_seconds: Series = _gauge(
        "Mean run time of these jobs in seconds.", "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_completion_mean_seconds: Series = _gauge(
        "Mean completion time of these jobs in seconds, from when they could start to their end.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_slowdown_mean_ratio: Series = _gauge(
        "Mean bounded slowdown of these jobs: completion over run time, both of at least 10 s; 1 is no wait.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    job_makespan_seconds: Series = _gauge(
        "Makespan of these jobs in seconds: from the first of their submissions within the window to the last end.",
        "partition", "flavour", "window", cap=2 * FLAVOURS)
    fragmentation_ratio: Series = _gauge(
        "Share of free GPUs that the usual demand of the last seven days cannot use (FGD, ATC'23).",
        "partition", cap=PARTITIONS)
    utilization_ratio: Series = _gauge(
        "Share of GPU time that jobs held over the window, Eq. (4) of the GIST AI-X paper; basis limit counts the "
        "requested time limit of jobs that have ended, and exceeds 1 where others run on their GPUs since; actual the "
        "time really used. From the scheduler.",
        "partition", "basis", cap=PARTITIONS * 2)
    paper_inefficient_power_watts: Series = _gauge(
        "Rated power x (1 - utilisation) in watts; upper bound, not a measurement, and below 0 where utilisation by "
        "limit exceeds 1.",
        "partition", "basis", cap=PARTITIONS * 2)
    unmeasured_gpus: Series = _gauge(
        "GPUs without fresh power, or allocated without activity, from DCGM; they are in no wasted figure.",
        "partition", cap=PARTITIONS)
    unmeasured_hosts: Series = _gauge(
        "Empty nodes with GPUs whose draw beside these nobody measures or estimates; it is in no wasted figure.",
        "partition", cap=PARTITIONS)
    outside_scheduler_since_timestamp_seconds: Series = _gauge(
        "Since when a GPU has been busy although the scheduler says that nobody holds it, in seconds since the epoch.",
        "node", "gpu", cap=NODES * 8)
    gpu_error_info: Series = _gauge(
        "GPUs whose driver has told an error since it was loaded, with NVIDIA's number of the last one; always 1. From "
        "DCGM.", "node", "gpu", "xid", cap=NODES)
    unmeasured_seconds_total: Series = _counter(
        "GPU time for which nothing was measured, in seconds: gaps longer than the sampling allows.",
        "partition", cap=PARTITIONS)

    # Advice
    advice_info: Series = _gauge(
        "Recommended placements, the most urgent first and no more than 50; always 1. All of them are in the API.",
        "policy", "objective", "job_id", "node", "gpus", cap=ADVICE)
    advice_reason_info: Series = _gauge(
        "Why a waiting job should start now or be held, in the order of the advice and no more than 50; always 1.",
        "policy", "job_id", "action", "reason", cap=ADVICE)
    advice_expected_start_timestamp_seconds: Series = _gauge(
        "When a job that is held is expected to start if the policy is followed and jobs use their full limits, in "
        "seconds since the epoch; no more than 50.", "policy", "job_id", cap=ADVICE)
    power_down_info: Series = _gauge(
        "Nodes worth powering down: empty, measured, needed by no known job soon, and not of the reserve; always 1.",
        "node", cap=NODES)
    power_cap_saving_ratio: Series = _gauge(
        "Share of the energy for the same work that like runs saved under a lower power limit, of running jobs and no "
        "more than 50; bound is estimate, low or high of the 95 % interval.",
        "partition", "job_id", "cap_watts", "bound", cap=ADVICE * 3)
    enclosure_power_watts: Series = _gauge(
        "Power in watts of racks with their own meter, by part: trays, switches (as configured), loss, unmeasured. "
        "The parts add up to the meter, or to the trays where these tell more.", "enclosure", "part", cap=NODES)
    enclosure_node_power_watts: Series = _gauge(
        "Power in watts of each tray with its share of its rack's switches and loss, by its own draw; absent for racks "
        "with a tray that is not measured.", "enclosure", "node", cap=NODES)
    enclosure_disagreement_watts: Series = _gauge(
        "By how many watts the trays of a rack exceed its meter.", "enclosure", cap=NODES)
    nvlink_domains: Series = _gauge(
        "NVLink domains across nodes (NVL72 racks) by state: free, full, out (no node up), or broken: some GPUs free "
        "and some not, so that no job of a whole domain fits.", "partition", "state", cap=PARTITIONS * 4)
    nvlink_domain_broken_gpus: Series = _gauge(
        "Free GPUs of broken NVLink domains.", "partition", cap=PARTITIONS)
    underused_gpus: Series = _gauge(
        "GPUs of running jobs that are underused, by cause; unknown where nothing tells why, absent where all that was "
        "judged is used well.", "partition", "cause", cap=PARTITIONS * 12)
    capped_gpus: Scalar = _gauge(
        "GPUs whose enforced power limit is below the one they were delivered with; absent where no exporter tells.")
    throttled_gpus: Series = _gauge(
        "GPUs whose clocks are held down now, by reason: power, power_brake, heat or slowdown; one GPU may have two.",
        "reason", cap=10)
    advice_timestamp_seconds: Series = _gauge(
        "When the policy last advised, in seconds since the epoch.", "policy", cap=POLICIES)
    advice_snapshot_timestamp_seconds: Series = _gauge(
        "When the scheduler was read that the policy's last advice rests on, in seconds since the epoch. The advice "
        "itself is no longer published once the scheduler has not been read for waste.scheduler_max_age.",
        "policy", cap=POLICIES)
    advice_interval_seconds: Scalar = _gauge("Configured time between two rounds of advice, in seconds.")
    advice_issued_total: Series = _counter(
        "Runs that started while advice of the policy was in force on their job: where, and when.", "policy",
        cap=POLICIES)
    advice_followed_total: Series = _counter(
        "Runs that started as the policy advised: on these nodes, with so many GPUs on each, at the advised moment.",
        "policy", cap=POLICIES)
    advice_verdicts_total: Series = _counter(
        "Runs that started, by the advice in force on their job (start or hold) and what became of it: followed, "
        "elsewhere (other nodes, or other GPUs on them), there but earlier or later, or not advised (the advice named "
        "no place).", "policy", "advice", "verdict", cap=POLICIES * 10)
    start_forecasts_total: Series = _counter(
        "Runs that started after their start had been foretold as an interval that holds in nine of ten futures, by "
        "the policy that foretold it and by how the first such interval came: within, earlier or later.", "policy",
        "result", cap=POLICIES * 3)
    communication_cost: Series = _gauge(
        "Weight of the edges between the GPUs of each job, less is closer together: of running jobs of several GPUs "
        "that were advised to start, as they are placed (actual) and as was advised.", "partition", "placement",
        cap=PARTITIONS * 2)
    recommendation_rows: Series = _gauge(
        "Recommendations beyond starts, by subject; all of them are in the API under the subject's name.",
        "subject", cap=SUBJECTS)
    recommendation_timestamp_seconds: Series = _gauge(
        "When the subject was last considered with success, in seconds since the epoch.", "subject", cap=SUBJECTS)
    advice_speedup_ratio: Series = _gauge(
        "Expected speed on the advised placement over that on the GPUs left over here and there, for jobs to start "
        "whose name tells an application in Pollux's tables (OSDI'21, up to 4 nodes of 4 GPUs), no more than 50.",
        "policy", "job_id", cap=ADVICE)
    move_info: Series = _gauge(
        "Moves of running jobs that would let a waiting job (for_job_id) start now, no more than 50; always 1. "
        "Only advice: nothing is moved.", "job_id", "node", "to_node", "gpus", "for_job_id", cap=ADVICE)
    moves_freed_gpus: Series = _gauge(
        "GPUs on which jobs that wait for room could start if other jobs were moved as advised.", "partition",
        cap=PARTITIONS)
    reclaimable_gpus: Series = _gauge(
        "GPUs of running jobs that have done nothing for so long that idlewatt reclaim lists them.", "partition",
        cap=PARTITIONS)
    reclaimable_since_timestamp_seconds: Series = _gauge(
        "Since when a running job has held idle GPUs, in seconds since the epoch; no more than 50 jobs, those with "
        "most of them.", "partition", "job_id", "user", "gpus", cap=ADVICE)
    moves_moved_gpus: Series = _gauge("GPUs of the jobs that would have to be moved for it.", "partition",
                                      cap=PARTITIONS)
    elastic_time_ratio: Series = _gauge(
        "Change in the time that a job still takes with that many GPUs more (+) or fewer, from a curve over its like: "
        "-0.4 finishes 40 % sooner. bound is estimate, low or high of the 95 % interval; no more than 50 jobs.",
        "partition", "job_id", "change", "bound", cap=ADVICE * 6)
    elastic_marginal_gain_ratio: Series = _gauge(
        "Marginal gain: change in a job's speed for each GPU of the change; no more than 50 jobs.",
        "partition", "job_id", "change", cap=ADVICE * 2)
    elastic_info: Series = _gauge(
        "Jobs whose speed with more or fewer GPUs is known: GPUs now, the change, whether there is room for it now, "
        "which waiting jobs it would make room for, and what the curve rests on (throughput, activity or configured); "
        "always 1, no more than 50 jobs.",
        "partition", "job_id", "change", "gpus", "basis", "room", "helps", cap=ADVICE * 2)
    elastic_unknown_jobs: Series = _gauge(
        "Running and pending jobs of which nothing can be said, by cause: unseen (no like run was watched), one_size "
        "(all had as many GPUs), no_curve (none fits) or too_far (its size from those measured).", "cause", cap=10)
    allocation_cpus: Series = _gauge(
        "CPUs on each of its nodes of a job that could start, or run faster, on what its neighbours do not use; which "
        "is held, used (95th percentile) or advised; no more than 50 jobs.", "partition", "job_id", "which",
        cap=ADVICE * 3)
    allocation_memory_bytes: Series = _gauge(
        "Memory of these jobs in bytes, likewise; used is the highest use seen, with the page cache.",
        "partition", "job_id", "which", cap=ADVICE * 3)
    allocation_sooner_ratio: Series = _gauge(
        "Share of its remaining time by which such a job would end sooner; bound is estimate, low or high of the 95 % "
        "interval.", "partition", "job_id", "bound", cap=ADVICE * 3)
    allocation_starts_sooner_seconds: Series = _gauge(
        "Time by which a waiting job would start sooner, in seconds.", "partition", "job_id", cap=ADVICE)
    allocation_info: Series = _gauge(
        "Who should give such a job what, and what for; state is running or pending, basis how its needs are known: "
        "measured, prior (by its model's name) or fair-share; always 1, no more than 50 jobs.",
        "partition", "job_id", "state", "node", "basis", "reason", cap=ADVICE)
    allocation_jobs: Series = _gauge(
        "Jobs on GPU nodes that were considered, by how their needs are known; fair-share is not at all.", "basis",
        cap=3)
    unused_cpus: Series = _gauge(
        "CPUs that running jobs hold and measurably do not use, with the margin that they are left.", "partition",
        cap=PARTITIONS)
    unused_memory_bytes: Series = _gauge(
        "Memory in bytes that running jobs hold and measurably do not use; page cache and margin count as used.",
        "partition", cap=PARTITIONS)
    simulated_energy_joules_total: Series = _counter(
        "Energy in joules that the closed windows would have taken under the policy, by replay of the same jobs; "
        "subtract two policies to compare them.", "policy", cap=POLICIES)
    simulation_energy_error_ratio: Scalar = _gauge(
        "(Simulated - measured) / measured energy of the policy that was in charge: how far to trust the replay.")
    simulated_wait_seconds_total: Series = _counter(
        "Time in seconds that all jobs together would have waited in the closed windows under the policy, by replay "
        "of the same jobs; subtract two policies to compare them.", "policy", cap=POLICIES)
    simulation_wait_error_ratio: Scalar = _gauge(
        "(Simulated - recorded) / recorded waiting of the policy that was in charge: how far to trust the replay.")
    policy_info: Series = _gauge(
        "What each policy is to us: incumbent (the scheduler's own), in_charge (of the advice), fallback (where an "
        "agent in charge abstains), shadow or demoted; always 1.",
        "policy", "role", cap=POLICIES * 3)
    model_info: Series = _gauge("Trained agents in use; always 1.", "policy", "version", cap=POLICIES)
    model_trained_timestamp_seconds: Series = _gauge(
        "When the agent was trained, in seconds since the epoch.", "policy", cap=POLICIES)

    # Learning; an agent's policy is kind@version
    promotions_total: Series = _counter(
        "Decisions on trained agents since recording began, by decision.", "decision", cap=10)
    abstaining: Series = _gauge(
        "Whether the agent gave no advice in the last round (1), so that the fallback's goes out where it is in "
        "charge, or did (0).", "policy", cap=POLICIES)
    abstentions_total: Series = _counter(
        "Rounds in which the agent gave no advice, by cause: doubt (of its own), stale (the scheduler's facts), "
        "damaged (its files), unknown (partitions or GPU types) or failed.", "policy", "cause", cap=POLICIES * 5)
    drift_ratio: Series = _gauge(
        "Share of waiting jobs that lie outside of what the agent was trained on.", "policy", cap=POLICIES)
    regret_ratio: Series = _gauge(
        "Time that jobs spent in the system under the policy over that under the incumbent, less 1, on the last closed "
        "day, by replay of the same jobs: positive is worse.", "policy", cap=POLICIES)
    regret_streak: Series = _gauge(
        "Closed days in a row on which the policy was worse than the incumbent; a sign, no proof.", "policy",
        cap=POLICIES)
    heldout_jct_seconds: Series = _gauge(
        "Completion time of jobs on held-out history in seconds, of the last judgement of an agent: everybody replayed "
        "the same jobs. statistic is mean or p99.", "policy", "statistic", cap=POLICIES * 2)
    heldout_wait_seconds: Series = _gauge(
        "Wait of jobs on held-out history in seconds; statistic is mean or p99.", "policy", "statistic",
        cap=POLICIES * 2)
    heldout_utilization_ratio: Series = _gauge(
        "Share of GPU time that jobs held while jobs came, mean over partitions (Eq. (5) of the GIST AI-X paper), on "
        "the last held-out history under each policy.", "policy", cap=POLICIES)
    heldout_makespan_seconds: Series = _gauge(
        "Time from when jobs count to the last end on the last held-out history under each policy, in seconds.",
        "policy", cap=POLICIES)
    heldout_jct_ratio: Series = _gauge(
        "Mean completion time on held-out history over the incumbent's; bound is estimate, low or high of the 95 % "
        "interval over blocks that share no queue.", "policy", "bound", cap=POLICIES * 3)
    heldout_energy_joules: Series = _gauge(
        "Energy at the wall on held-out history in joules; empty_nodes are on, or down after the site's delay.",
        "policy", "empty_nodes", cap=POLICIES * 2)
    heldout_energy_ratio: Series = _gauge(
        "The same over the incumbent's; bound as above.", "policy", "empty_nodes", "bound", cap=POLICIES * 6)
    heldout_timestamp_seconds: Scalar = _gauge("When an agent was judged last, in seconds since the epoch.")
    training_score_ratio: Series = _gauge(
        "Training curve of the agents in use: held-out objective over the incumbent's, below 1 is better, by the share "
        "of the budget that was spent.", "policy", "done", cap=POLICIES * 100)
    training_running: Scalar = _gauge("Whether the daemon trains an agent now (1) or not (0).")
    training_runs_total: Series = _counter(
        "Trainings that the daemon has run since its start, by result: done, failed or interrupted.", "result", cap=10)
    training_last_success_timestamp_seconds: Scalar = _gauge(
        "When a training of the daemon's last came to an end with an agent, in seconds since the epoch.")

    # The daemon itself
    up: Series = _gauge("Whether the last read of the source succeeded (1) or not (0).", "collector", cap=COLLECTORS)
    collector_duration_seconds: Series = _gauge(
        "Duration of the source's last read in seconds.", "collector", cap=COLLECTORS)
    last_success_timestamp_seconds: Series = _gauge(
        "When the source was last read with success, in seconds since the epoch.", "collector", cap=COLLECTORS)
    unreadable_records: Series = _gauge(
        "Records (a job, a node) that the source's last read could not understand, and left out.", "collector",
        cap=COLLECTORS)
    cycle_duration_seconds: Series = _gauge("Duration of the cycle's last run in seconds.", "cycle", cap=50)
    cycle_overruns_total: Series = _counter("Beats skipped because the run before had not ended.", "cycle", cap=50)
    cycle_failures_total: Series = _counter("Runs of the cycle that failed.", "cycle", cap=50)
    cycle_last_run_timestamp_seconds: Series = _gauge(
        "When the cycle's last run ended, in seconds since the epoch.", "cycle", cap=50)
    degraded: Series = _gauge(
        "What is wrong with what idlewatt knows: how many sources, cycles or other parts, by cause; 0 is well. The "
        "page and /api/v1/status say it in words.", "cause", cap=len(DEGRADED))
    degraded_since_timestamp_seconds: Series = _gauge(
        "Since when something has been wrong for this cause, in seconds since the epoch; for a scheduler that is not "
        "read, when it was read last.", "cause", cap=len(DEGRADED))
    recorder_backlog_records: Scalar = _gauge("Facts waiting to be written to the database.")
    recorder_backlog_bytes: Scalar = _gauge("Disk space of facts waiting to be written to the database, in bytes.")
    recorder_dropped_records_total: Scalar = _counter(
        "Facts lost because the backlog was full or the database refused them for good.")
    database_size_bytes: Scalar = _gauge("Size of the database in bytes.")
    notices: Series = _gauge(
        "Notices of the last 60 days by rule, stage (first, second, admins, digest) and state: dry_run, waiting, sent, "
        "left_out (said to nobody, by wish or for want of an address), lapsed or failed.", "rule", "stage", "state",
        cap=NOTICES)
    config_last_reload_successful: Scalar = _gauge("Whether the last reload of the configuration succeeded.")
    config_last_reload_success_timestamp_seconds: Scalar = _gauge(
        "When the configuration was last loaded with success, in seconds since the epoch.")
    build_info: Series = _gauge(
        "The running version; always 1.", *BUILD, cap=1)

    capped_series: Series = _gauge(
        "Series left out of this page because their metric had reached its cap, by metric.", "metric", cap=100)


METRICS: tuple[Declared, ...] = tuple(Declared(name=PREFIX + item.name, **item.metadata)
                                      for item in fields(Published) if item.metadata)
"""The catalogue, in the order of the page: code, tests and documentation all read it."""


def check(values: Mapping[str, Scalar | Series]) -> None:
    """Raise ValueError for a value that is none of a metric here, or has other labels: it would fail the whole page."""
    declared = {metric.name.removeprefix(PREFIX): metric for metric in METRICS}
    for name, value in values.items():
        if name not in declared:
            raise ValueError(f"there is no metric {PREFIX}{name}")
        _clean(declared[name], value)


class PublishedCollector(Collector):
    """Builds the metric families anew at each scrape; it keeps nothing."""

    def __init__(self, read: Callable[[], Published]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Return the families without values, so that registering reads nothing."""
        return (_family(declared) for declared in METRICS)

    def collect(self) -> Iterator[Metric]:
        """Return the families as they are now; a metric without any value is left out."""
        published, dropped = self._read(), dict[str, float]()
        given: dict[str, Any] = {"build_info": {tuple(BUILD.values()): 1.0}, "capped_series": dropped}
        for declared in METRICS:
            name = declared.name.removeprefix(PREFIX)
            value = given.get(name, getattr(published, name))
            rows: Mapping[tuple[str, ...], Any] = _distributions(declared, value) if declared.kind == "histogram" \
                else _rows(declared, value, published.partitions)
            excess = len(rows) - declared.cap
            if excess > 0:
                dropped[declared.name] = excess
            if rows:
                yield _filled(declared, list(rows.items())[:declared.cap])


def registry(read: Callable[[], Published]) -> CollectorRegistry:
    """Return a registry of our metrics and those of the process and its Python."""
    own = CollectorRegistry()
    own.register(PublishedCollector(read))
    ProcessCollector(registry=own)
    PlatformCollector(registry=own)
    return own


def page(own: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type: OpenMetrics where ``accept`` asks for it, else the text format 0.0.4."""
    encode, content_type = choose_encoder(accept)
    return encode(own), content_type


def _distributions(declared: Declared, value: Any) -> dict[tuple[str, ...], Distribution]:
    """Return distributions under labels that any scraper accepts; of two that become alike the first stays."""
    rows: dict[tuple[str, ...], Distribution] = {}
    for labels, found in value.items():
        if len(labels) != len(declared.labels):
            raise ValueError(f"{declared.name} has the labels {declared.labels}, not {labels!r}")
        rows.setdefault(tuple(map(_text, labels)), found)
    return rows


def _rows(declared: Declared, value: Scalar | Series, partitions: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    """Return values by label set: known label values at 0 unless given, unmeasured ones absent."""
    given = _clean(declared, value)
    if not declared.known:
        return given
    places = dict.fromkeys(labels[:-1] for labels in given)
    if declared.labels[:-1] == ("partition",):
        places.update(dict.fromkeys((_text(partition),) for partition in partitions))
    zeros = {(*place, known): 0.0 for place in places for known in declared.known}
    return zeros | given


def _clean(declared: Declared, value: Scalar | Series) -> dict[tuple[str, ...], float]:
    """Return measured values only, under labels that any scraper accepts; of two that become alike the first stays."""
    values: Mapping[Any, float | None] = value if isinstance(value, Mapping) else {(): value}
    rows: dict[tuple[str, ...], float] = {}
    for key, number in values.items():
        labels = (key,) if isinstance(key, str) else key
        if len(labels) != len(declared.labels):
            raise ValueError(f"{declared.name} has the labels {declared.labels}, not {labels!r}")
        if number is not None and not math.isnan(number):
            rows.setdefault(tuple(map(_text, labels)), number)
    return rows


def _text(label: str) -> str:
    if type(label) is str and label.isascii() and len(label) <= LONGEST_LABEL:
        return label  # nearly all of them, at the price of a look
    # A lone surrogate (a user's bytes that were no UTF-8) would fail the whole page.
    return str(label)[:LONGEST_LABEL].encode(errors="replace").decode()


FAMILIES: Mapping[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily,
                               "histogram": HistogramMetricFamily}


def _family(declared: Declared) -> Any:
    return FAMILIES[declared.kind](declared.name, declared.help, labels=declared.labels)


def _filled(declared: Declared, rows: Iterable[tuple[tuple[str, ...], float | Distribution]]) -> Metric:
    family: Any = _family(declared)
    for labels, value in rows:
        if isinstance(value, Distribution):
            bounds = (*map(str, BUCKETS_S), "+Inf")
            family.add_metric(labels, list(zip(bounds, value.counts, strict=True)), value.total)
        else:
            family.add_metric(labels, value)
    filled: Metric = family
    return filled
