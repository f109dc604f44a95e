"""What is advised, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from .declared import ADVICE, NODES, PARTITIONS, POLICIES, SUBJECTS, Scalar, Series, counter, gauge


@dataclass(frozen=True)
class AdviceMetrics:
    """Recommendations by kind, whether they were followed, and what they would save."""

    advice_info: Series = gauge(
        "Recommended placements, the most urgent first and no more than 50; always 1. All of them are in the API.",
        "policy", "objective", "job_id", "node", "gpus", cap=ADVICE)
    advice_reason_info: Series = gauge(
        "Why a waiting job should start now or be held, in the order of the advice and no more than 50; always 1.",
        "policy", "job_id", "action", "reason", cap=ADVICE)
    advice_expected_start_timestamp_seconds: Series = gauge(
        "When a job that is held is expected to start if the policy is followed and jobs use their full limits, in "
        "seconds since the epoch; no more than 50.", "policy", "job_id", cap=ADVICE)
    power_down_info: Series = gauge(
        "Nodes worth powering down: empty, measured, needed by no known job soon, and not of the reserve; always 1.",
        "node", cap=NODES)
    power_down_needed_timestamp_seconds: Series = gauge(
        "When a node that is worth powering down is needed again, in seconds since the epoch, by like moments of the "
        "recorded past; bound is estimate, low or high of the interval of nine in ten; absent where it is later than "
        "in two days, or where too little is recorded; of no more than 50 nodes.", "node", "bound", cap=ADVICE * 3)
    power_down_saving_joules: Series = gauge(
        "Energy that powering the node down until then would save, in joules, less what it takes to come up and while "
        "it is down; bound is estimate, low or high of the same interval, and no more than of two days.",
        "node", "bound", cap=ADVICE * 3)
    power_cap_saving_ratio: Series = gauge(
        "Share of the energy for the same work that like runs saved under a lower power limit, of running jobs and no "
        "more than 50; bound is estimate, low or high of the 95 % interval.",
        "partition", "job_id", "cap_watts", "bound", cap=ADVICE * 3)
    power_profile_saving_ratio: Series = gauge(
        "Share of the energy for the same work that like runs saved under a workload power profile (Blackwell), of "
        "running jobs and no more than 50; profile is its number and name, bound is estimate, low or high of the 95 % "
        "interval.", "partition", "job_id", "profile", "bound", cap=ADVICE * 3)
    enclosure_power_watts: Series = gauge(
        "Power in watts of racks with their own meter, by part: trays, switches (as configured), loss, unmeasured. "
        "The parts add up to the meter, or to the trays where these measure more.", "enclosure", "part", cap=NODES)
    enclosure_node_power_watts: Series = gauge(
        "Power in watts of each tray with its share of its rack's switches and loss, by its own draw; absent for racks "
        "with a tray that is not measured.", "enclosure", "node", cap=NODES)
    enclosure_disagreement_watts: Series = gauge(
        "By how many watts the trays of a rack exceed its meter.", "enclosure", cap=NODES)
    nvlink_domains: Series = gauge(
        "NVLink domains across nodes (NVL72 racks) by state: free, full, out (no node up), or broken: some GPUs free "
        "and some not, so that no job of a whole domain fits.", "partition", "state", cap=PARTITIONS * 4)
    nvlink_domain_broken_gpus: Series = gauge(
        "Free GPUs of broken NVLink domains.", "partition", cap=PARTITIONS)
    cluster_nvlink_domains: Series = gauge(
        "NVLink domains of the whole cluster by state, each once however many partitions it serves.", "state", cap=4)
    cluster_nvlink_domain_broken_gpus: Scalar = gauge(
        "Free GPUs of the broken NVLink domains of the whole cluster, each once however many partitions it serves.")
    underused_gpus: Series = gauge(
        "GPUs of running jobs that are underused, by cause; unknown where no measurement shows why, absent where all "
        "that was judged is used well.", "partition", "cause", cap=PARTITIONS * 12)
    capped_gpus: Scalar = gauge(
        "GPUs whose enforced power limit is below their default limit; absent where no exporter reports both.")
    throttled_gpus: Series = gauge(
        "GPUs whose clocks are held down now, by reason: power, power_brake, heat or slowdown; one GPU may have two.",
        "reason", cap=10)
    advice_timestamp_seconds: Series = gauge(
        "When the policy last advised, in seconds since the epoch.", "policy", cap=POLICIES)
    advice_snapshot_timestamp_seconds: Series = gauge(
        "When the scheduler was read that the policy's last advice rests on, in seconds since the epoch. The advice "
        "itself is no longer published once the scheduler has not been read for waste.scheduler_max_age.",
        "policy", cap=POLICIES)
    advice_interval_seconds: Scalar = gauge("Configured time between two rounds of advice, in seconds.")
    advice_issued_total: Series = counter(
        "Runs that started while advice of the policy was in force on their job: where, and when.", "policy",
        cap=POLICIES)
    advice_followed_total: Series = counter(
        "Runs that started as the policy advised: on these nodes, with so many GPUs on each, within 600 s of the "
        "advised moment.", "policy", cap=POLICIES)
    advice_verdicts_total: Series = counter(
        "Runs that started, by the advice in force on their job (start or hold) and what became of it: followed, "
        "elsewhere (other nodes, or other GPUs on them), there but more than 600 s earlier or later than advised, or "
        "not advised (the advice named no place, or no moment).", "policy", "advice", "verdict", cap=POLICIES * 10)
    start_forecasts_total: Series = counter(
        "Runs that started after their start had been forecast as an interval that holds in nine of ten futures, by "
        "the policy that forecast it and by how the first such interval came: within, earlier or later.", "policy",
        "result", cap=POLICIES * 3)
    communication_cost: Series = gauge(
        "Weight of the edges between the GPUs of each job, less is closer together: of running jobs of several GPUs "
        "that were advised to start, as they are placed (actual) and as was advised.", "partition", "placement",
        cap=PARTITIONS * 2)
    recommendation_rows: Series = gauge(
        "Recommendations beyond starts, by recommender (subject); all of them are in the API under its name.",
        "subject", cap=SUBJECTS)
    recommendation_timestamp_seconds: Series = gauge(
        "When the recommender last ran with success, in seconds since the epoch.", "subject", cap=SUBJECTS)
    advice_speedup_ratio: Series = gauge(
        "Expected speed on the advised placement over that on the GPUs left over here and there, for jobs to start "
        "whose name shows an application of Pollux's tables (OSDI'21, up to 4 nodes of 4 GPUs), no more than 50.",
        "policy", "job_id", cap=ADVICE)
    move_info: Series = gauge(
        "Moves of running jobs that would let a waiting job (for_job_id) start now, no more than 50; always 1. "
        "Only advice: nothing is moved.", "job_id", "node", "to_node", "gpus", "for_job_id", cap=ADVICE)
    moves_freed_gpus: Series = gauge(
        "GPUs on which jobs that wait for room could start if other jobs were moved as advised.", "partition",
        cap=PARTITIONS)
    reclaimable_gpus: Series = gauge(
        "GPUs of running jobs that have done nothing for so long that idlewatt reclaim lists them.", "partition",
        cap=PARTITIONS)
    reclaimable_since_timestamp_seconds: Series = gauge(
        "Since when a running job has held idle GPUs, in seconds since the epoch; no more than 50 jobs, those with "
        "most of them.", "partition", "job_id", "user", "gpus", cap=ADVICE)
    moves_moved_gpus: Series = gauge(
        "GPUs of the jobs that would have to be moved to let waiting jobs start.", "partition", cap=PARTITIONS)
    elastic_time_ratio: Series = gauge(
        "Change in the time that a job still takes with that many GPUs more (+) or fewer, from a curve over its like: "
        "-0.4 finishes 40 % sooner. bound is estimate, low or high of the 95 % interval; no more than 50 jobs.",
        "partition", "job_id", "change", "bound", cap=ADVICE * 6)
    elastic_marginal_gain_ratio: Series = gauge(
        "Marginal gain: change in a job's speed for each GPU of the change; no more than 50 jobs.",
        "partition", "job_id", "change", cap=ADVICE * 2)
    elastic_info: Series = gauge(
        "Jobs whose speed with more or fewer GPUs is known: GPUs now, the change, whether there is room for it now, "
        "which waiting jobs it would make room for, and what the curve rests on (throughput, activity or configured); "
        "always 1, no more than 50 jobs.",
        "partition", "job_id", "change", "gpus", "basis", "room", "helps", cap=ADVICE * 2)
    elastic_unknown_jobs: Series = gauge(
        "Running and pending jobs whose speed on other sizes is unknown, by cause: unseen (no like run was watched), "
        "one_size (all had as many GPUs), no_curve (none fits) or too_far (its size from those measured).", "cause",
        cap=10)
    allocation_cpus: Series = gauge(
        "CPUs on each of its nodes of a job that could start, or run faster, on what its neighbours do not use; which "
        "is held, used (95th percentile) or advised; no more than 50 jobs.", "partition", "job_id", "which",
        cap=ADVICE * 3)
    allocation_memory_bytes: Series = gauge(
        "Memory in bytes on each node of a job that could start or run faster on what its neighbours do not use; which "
        "is held, used (highest use seen, with the page cache) or advised; no more than 50 jobs.",
        "partition", "job_id", "which", cap=ADVICE * 3)
    allocation_sooner_ratio: Series = gauge(
        "Share of its remaining time by which such a job would end sooner; bound is estimate, low or high of the 95 % "
        "interval.", "partition", "job_id", "bound", cap=ADVICE * 3)
    allocation_starts_sooner_seconds: Series = gauge(
        "Time by which a waiting job would start sooner, in seconds.", "partition", "job_id", cap=ADVICE)
    allocation_info: Series = gauge(
        "Who should give such a job what, and what for; state is running or pending, basis how its needs are known: "
        "measured, prior (by its model's name) or fair-share; always 1, no more than 50 jobs.",
        "partition", "job_id", "state", "node", "basis", "reason", cap=ADVICE)
    allocation_jobs: Series = gauge(
        "Jobs on GPU nodes that were evaluated, by how their needs are known; fair-share means not at all.", "basis",
        cap=3)
    unused_cpus: Series = gauge(
        "CPUs that running jobs hold and measurably do not use, with the margin that they are left.", "partition",
        cap=PARTITIONS)
    unused_memory_bytes: Series = gauge(
        "Memory in bytes that running jobs hold and measurably do not use; page cache and margin count as used.",
        "partition", cap=PARTITIONS)
    simulated_energy_joules_total: Series = counter(
        "Energy in joules that the closed windows would have taken under the policy, by replay of the same jobs; the "
        "scheduler's own in a window that was not replayed under it. Subtract two policies to compare them.", "policy",
        cap=POLICIES)
    simulation_energy_error_ratio: Scalar = gauge(
        "(Simulated - measured) / measured energy of the policy that was active: how far to trust the replay.")
    simulated_wait_seconds_total: Series = counter(
        "Time in seconds that all jobs together would have waited in the closed windows under the policy, by replay "
        "of the same jobs; the scheduler's own in a window that was not replayed under it. Subtract two policies to "
        "compare them.", "policy", cap=POLICIES)
    simulation_wait_error_ratio: Scalar = gauge(
        "Mean absolute error of simulated starts of the jobs that waited over their mean wait, under the scheduler's "
        "own policy in the last replay of a day and the window: the figure of --check and of promotion. Absent "
        "while fewer than ten jobs waited.")
    policy_info: Series = gauge(
        "The role of each policy: incumbent (the scheduler's own policy), active (its advice goes out), fallback "
        "(where an active agent abstains), shadow or demoted; always 1.",
        "policy", "role", cap=POLICIES * 3)
    model_info: Series = gauge("Trained agents in use; always 1.", "policy", "version", cap=POLICIES)
    model_trained_timestamp_seconds: Series = gauge(
        "When the agent was trained, in seconds since the epoch.", "policy", cap=POLICIES)
