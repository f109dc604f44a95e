"""Where the watts are."""

from __future__ import annotations

from dataclasses import dataclass

from ...storage.power_classes import WASTED, PowerClass
from .declared import FLAVOURS, JOBS, NODES, PARTITIONS, USERS, Scalar, Series, counter, gauge, rows_in_words


@dataclass(frozen=True)
class PowerMetrics:
    """Watts and joules by class, partition, node, user and job."""

    power_watts: Series = gauge(
        "Power by class in watts; the classes add up to the power of all nodes. GPU power from DCGM, the rest of a "
        "node from IPMI, Redfish or hwmon; where GPUs are not measured all the rest of their node is unmeasured. "
        f"Classes: {rows_in_words(PowerClass)}.",
        "partition", "class", cap=PARTITIONS * len(PowerClass), known=PowerClass)
    wasted_power_watts: Series = gauge(
        "Power that does no work, by reason, in watts; a subset of idlewatt_power_watts, and a lower bound while "
        "anything is unmeasured.",
        "partition", "reason", cap=PARTITIONS * len(WASTED), known=WASTED)
    energy_joules_total: Series = counter(
        "Energy by class in joules since the daemon's start, integrated from idlewatt_power_watts without "
        "crossing gaps.", "partition", "class", cap=PARTITIONS * len(PowerClass), known=PowerClass)
    wasted_energy_joules_total: Series = counter(
        "Energy that did no work, by reason, in joules; never revised.",
        "partition", "reason", cap=PARTITIONS * len(WASTED), known=WASTED)
    node_power_watts: Series = gauge(
        "Power of a node in watts. source says where it was read: at the wall by ipmi, redfish, hwmon or ceems; "
        "modules is what the superchips of a Grace tray draw, without the rest of it; estimated is its GPUs and the "
        "configured or last known draw of the rest, gpus its GPUs alone.",
        "node", "source", cap=NODES)
    node_wasted_power_watts: Series = gauge(
        "Part of a node's power that does no work, in watts: its GPUs' and, while it is empty, its host's; absent "
        "where nothing of it is known to be wasted and not all is measured.",
        "node", cap=NODES)
    user_wasted_power_watts: Series = gauge(
        "Power that does no work on GPUs that a user's jobs hold, in watts, the largest first; absent where nothing of "
        "it is known to be wasted and not all is measured.", "user", "partition", cap=USERS)
    user_power_watts: Series = gauge(
        "Power of the GPUs that a user's jobs hold, in watts; the largest first.", "user", "partition", cap=USERS)
    node_info: Series = gauge("Partitions that a node with GPUs serves, a series for each; always 1.", "node",
                               "partition", cap=2 * NODES)
    job_power_watts: Series = gauge(
        "Power of the GPUs that a job holds, in watts: of the running jobs that waste most, as many as "
        "waste.job_series says.", "job_id", "partition", "user", "account", "flavour", cap=JOBS)
    job_wasted_power_watts: Series = gauge(
        "Part of the power of a running job's GPUs that does no work, in watts, of the jobs that waste most; absent "
        "where no waste is known and not all is measured.", "job_id", "partition", "user", "account", "flavour",
        cap=JOBS)
    job_start_timestamp_seconds: Series = gauge(
        "When the running jobs that waste most started, in seconds since the epoch.", "job_id", "partition", "user",
        "account", "flavour", cap=JOBS)
    flavour_power_watts: Series = gauge(
        "Power of the GPUs that jobs hold, in watts, by the flavour of the job: a configured one, or its size.",
        "partition", "flavour", cap=FLAVOURS)
    flavour_wasted_power_watts: Series = gauge(
        "Part of the power of the GPUs of a flavour's jobs that does no work, in watts; absent where no waste is known "
        "and not all is measured.", "partition", "flavour", cap=FLAVOURS)
    unaccounted_power_watts: Scalar = gauge(
        "Power of all nodes less the sum of all classes, in watts: 0 unless the accounting is broken.")
    host_unused_watts: Series = gauge(
        "Unused part of busy nodes, in watts: of a node that uses one of eight GPUs, seven eighths of what its host "
        "draws. Contained in class host_active and not to be added to the classes. Wasted power and this together do "
        "not fall when jobs are spread over more nodes that are alike. Absent where it is not measured.",
        "partition", cap=PARTITIONS)
    power_source_disagreement_watts: Scalar = gauge(
        "GPU power in excess of the wall meter, summed over nodes, in watts: meters average over a window.")
    gpu_idle_floor_watts: Series = gauge(
        "Power of a GPU that does nothing, in watts; floor_source is learned, configured or catalogue.",
        "model", "floor_source", cap=300)
    pue_ratio: Scalar = gauge(
        "Power usage effectiveness of the site as configured; multiplies nothing here.")

    electricity_price: Series = gauge(
        "What a kWh costs now by the configured prices, file or metric; below 0 where it is paid to use it. Not there "
        "while it is not known.", "currency")
    carbon_intensity: Scalar = gauge(
        "Carbon dioxide equivalents that a kWh of the grid means now, in grams. Absent while it is not known.")
