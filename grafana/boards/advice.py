"""Placement advice: what to start where, whether it is followed, and what it is worth."""

from __future__ import annotations

from .board import board, price
from .panels import DAEMON, NODE, Row, lines, listing, number

AGE = f"clamp_min(max(time() - idlewatt_advice_timestamp_seconds{{{DAEMON}}}), 0)"
ISSUED = f"sum(increase(idlewatt_advice_issued_total{{{DAEMON}}}[$__range]))"
FOLLOWED = f"sum(increase(idlewatt_advice_followed_total{{{DAEMON}}}[$__range]))"
EMPTY = (f'sum by (node) (idlewatt_node_gpus{{{NODE}, state=~"idle|stranded"}}) == '
         f"sum by (node) (idlewatt_node_gpus{{{NODE}}}) > 0")
EMPTY_POWER = f"sum by (node) (idlewatt_node_power_watts{{{NODE}}}) and on (node) ({EMPTY})"
# Zero where the daemon measures and finds none; nothing at all where it does not measure.
NO_POWER = f"0 * sum(idlewatt_node_power_watts{{{NODE}}})"
NO_ADVICE = f"0 * sum(idlewatt_advice_interval_seconds{{{DAEMON}}})"
NO_WINDOW = "no closed window has been replayed yet"


def build() -> str:
    """Return the board."""
    return board("advice", "Placement advice", "What to start where, whether it is followed, and what it is worth.",
                 ((4, _figures()), (11, _now()), (9, _record())), variables=(price(),))


def _figures() -> Row:
    return (
        (4, number("Placements advised", "Jobs that the policy in charge would start now.",
                   f"count(count by (slurm_job_id) (idlewatt_advice_info{{{DAEMON}}})) or {NO_ADVICE}", "short")),
        (4, number("Age of the advice", "Time since the oldest policy last advised. Red from ten minutes: the "
                   "cluster has moved on, do not follow it.", AGE, "s",
                   steps=((None, "green"), (120.0, "orange"), (600.0, "red")), empty="nothing waits")),
        (4, number("Followed", "Of the runs in the time range on which there was advice, the share that started as "
                   "advised: there, and not when the advice was to hold. Coincidence counts too.",
                   f"{FOLLOWED} / ({ISSUED} > 0)", "percentunit", empty="no advised job has started yet")),
        (4, number("Power of empty nodes", "Wall power of the chosen nodes that have no job on any GPU.",
                   f"sum({EMPTY_POWER}) or {NO_POWER}", "watt")),
        (4, number("Its cost, per day", "What the empty nodes cost in a day if they stay empty, at the price per kWh "
                   "written above.", f"(sum({EMPTY_POWER}) or {NO_POWER}) * 24 / 1e3 * $price", "short", decimals=2)),
        (4, number("Error of the simulation", "(Simulated - measured) / measured energy of the policy that was in "
                   "charge. Savings are believed only as far as this allows.",
                   f"max(idlewatt_simulation_energy_error_ratio{{{DAEMON}}})", "percentunit", empty=NO_WINDOW)))


def _now() -> Row:
    return (
        (14, listing("Recommended placements", "What the policy in charge would start now, the most urgent first, no "
                     "more than 50; a job on several nodes has several rows. All of them, with reasons, expected "
                     "starts and those to hold: idlewatt advise, or the daemon's own page.",
                     (f"idlewatt_advice_info{{{NODE}}}",),
                     {"slurm_job_id": "Job", "node": "Node", "gpus": "GPUs", "policy": "Policy",
                      "objective": "Objective"}, empty="nothing that waits could start now")),
        (10, listing("Nodes that could be powered down", "Chosen nodes without a job on any GPU, with what they draw. "
                     "Keep the reserve that your next jobs need; idlewatt powers nothing down itself.",
                     (EMPTY_POWER,), {"node": "Node", "Value": "Draws now"}, unit="watt",
                     empty="no node is empty")))


def _record() -> Row:
    return (
        (8, lines("Advised and followed", "Runs on which there was advice, and those that started as advised, "
                  "by policy, over the time range.",
                  ((f"sum by (policy) (increase(idlewatt_advice_issued_total{{{DAEMON}}}[$__range]))",
                    "{{policy}}: advised"),
                   (f"sum by (policy) (increase(idlewatt_advice_followed_total{{{DAEMON}}}[$__range]))",
                    "{{policy}}: followed")), "short", empty="no advised job has started yet")),
        (8, lines("Energy under each policy", "What the closed windows of the time range would have taken under each "
                  "policy, by replay of the same jobs. The gap between two curves is what following the lower one "
                  "would have saved.",
                  ((f"sum by (policy) (increase(idlewatt_simulated_energy_joules_total{{{DAEMON}}}[$__range])) / 3.6e6",
                    "{{policy}}"),), "kwatth", empty=NO_WINDOW)),
        (8, lines("Error of the simulation over time", "How far the replay of what really ran is off the meters, "
                  "either way. A gap between policies that is smaller than this is no saving.",
                  ((f"abs(max by (cluster) (idlewatt_simulation_energy_error_ratio{{{DAEMON}}}))", "{{cluster}}"),),
                  "percentunit", empty=NO_WINDOW)))
