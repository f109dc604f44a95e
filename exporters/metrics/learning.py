"""How agents learn and are judged; an agent's policy is kind@version."""

from __future__ import annotations

from dataclasses import dataclass

from .declared import POLICIES, Scalar, Series, counter, gauge


@dataclass(frozen=True)
class LearningMetrics:
    """Trainings, models, and what was decided on them."""

    promotions_total: Series = counter(
        "Decisions on trained agents since recording began, by decision.", "decision", cap=10)
    abstaining: Series = gauge(
        "Whether the agent gave no advice in the last round (1), so that the fallback's goes out where it is "
        "active, or did (0).", "policy", cap=POLICIES)
    abstentions_total: Series = counter(
        "Rounds in which the agent gave no advice, by cause: doubt (of its own), later (waiting jobs are expected to "
        "end later under it), stale (the scheduler's facts), damaged (its files), unknown (partitions or GPU types) "
        "or failed.", "policy", "cause", cap=POLICIES * 6)
    drift_ratio: Series = gauge(
        "Share of waiting jobs that lie outside of what the agent was trained on.", "policy", cap=POLICIES)
    regret_ratio: Series = gauge(
        "Time that jobs spent in the system under the policy over that under the scheduler's own, less 1, on the "
        "last closed day, by replay of the same jobs: positive is worse.", "policy", cap=POLICIES)
    regret_streak: Series = gauge(
        "Closed days in a row on which the policy was worse than the scheduler's own; a sign, no proof.", "policy",
        cap=POLICIES)
    candidate_info: Series = gauge(
        "What each agent and each combination of heuristics is now: state is active, on trial, candidate, demoted or "
        "not a candidate, and reason says why in words; always 1.", "policy", "state", "reason", cap=POLICIES)
    candidate_jct_ratio: Series = gauge(
        "Mean completion time under a candidate over that under the scheduler's own policy, on the held-out history "
        "that it was last judged on; bound is estimate, low or high of the 95 % interval, of which there is none while "
        "blocks are too few.",
        "policy", "bound", cap=POLICIES * 3)
    heldout_jct_seconds: Series = gauge(
        "Completion time of jobs on held-out history in seconds, of the last judgement of an agent: everybody replayed "
        "the same jobs. statistic is mean or p99.", "policy", "statistic", cap=POLICIES * 2)
    heldout_wait_seconds: Series = gauge(
        "Wait of jobs on held-out history in seconds; statistic is mean or p99.", "policy", "statistic",
        cap=POLICIES * 2)
    heldout_utilization_ratio: Series = gauge(
        "Share of GPU time that jobs held while jobs came, mean over partitions (Eq. (5) of the GIST AI-X paper), on "
        "the last held-out history under each policy.", "policy", cap=POLICIES)
    heldout_makespan_seconds: Series = gauge(
        "Time from when jobs count to the last end on the last held-out history under each policy, in seconds.",
        "policy", cap=POLICIES)
    heldout_jct_ratio: Series = gauge(
        "Mean completion time on held-out history over that under the scheduler's own; bound is estimate, low or "
        "high of the 95 % interval over blocks that share no queue.", "policy", "bound", cap=POLICIES * 3)
    heldout_energy_joules: Series = gauge(
        "Energy at the wall on held-out history in joules; empty_nodes are on, or down after the site's delay.",
        "policy", "empty_nodes", cap=POLICIES * 2)
    heldout_energy_ratio: Series = gauge(
        "Energy at the wall on held-out history over that under the scheduler's own; bound is estimate, low or "
        "high of the 95 % interval.", "policy", "empty_nodes", "bound", cap=POLICIES * 6)
    heldout_timestamp_seconds: Scalar = gauge("When an agent was judged last, in seconds since the epoch.")
    training_score_ratio: Series = gauge(
        "Training curve of the agents in use: held-out objective over that of the scheduler's own policy, below 1 is "
        "better, by the share of the budget that was spent.", "policy", "done", cap=POLICIES * 100)
    training_running: Scalar = gauge("Whether the daemon trains an agent now (1) or not (0).")
    training_runs_total: Series = counter(
        "Trainings that the daemon has run since its start, by result: done, refused, failed or interrupted.", "result",
        cap=10)
    training_last_success_timestamp_seconds: Scalar = gauge(
        "When a training of the daemon's last came to an end with an agent, in seconds since the epoch.")
