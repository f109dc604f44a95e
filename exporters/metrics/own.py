"""How the daemon itself fares."""

from __future__ import annotations

from dataclasses import dataclass

from .declared import BUILD, COLLECTORS, DEGRADED, NOTICES, Scalar, Series, counter, gauge


@dataclass(frozen=True)
class OwnMetrics:
    """Sources, cycles, database and version of the daemon."""

    up: Series = gauge("Whether the last read of the source succeeded (1) or not (0).", "collector", cap=COLLECTORS)
    collector_duration_seconds: Series = gauge(
        "Duration of the source's last read in seconds.", "collector", cap=COLLECTORS)
    last_success_timestamp_seconds: Series = gauge(
        "When the source was last read with success, in seconds since the epoch.", "collector", cap=COLLECTORS)
    unreadable_records: Series = gauge(
        "Records (a job, a node) that the source's last read could not understand, and left out.", "collector",
        cap=COLLECTORS)
    cycle_duration_seconds: Series = gauge("Duration of the cycle's last run in seconds.", "cycle", cap=50)
    cycle_overruns_total: Series = counter("Runs skipped because the run before had not ended.", "cycle", cap=50)
    cycle_failures_total: Series = counter("Runs of the cycle that failed.", "cycle", cap=50)
    cycle_last_run_timestamp_seconds: Series = gauge(
        "When the cycle's last run ended, in seconds since the epoch.", "cycle", cap=50)
    degraded: Series = gauge(
        "What is wrong with what idlewatt knows: how many sources, cycles or other parts, by cause; 0 is well. The "
        "page and /api/v1/status say it in words.", "cause", cap=len(DEGRADED))
    degraded_since_timestamp_seconds: Series = gauge(
        "Since when something has been wrong for this cause, in seconds since the epoch; for a scheduler that is not "
        "read, when it was read last.", "cause", cap=len(DEGRADED))
    recorder_backlog_records: Scalar = gauge("Facts waiting to be written to the database.")
    recorder_backlog_bytes: Scalar = gauge("Disk space of facts waiting to be written to the database, in bytes.")
    recorder_dropped_records_total: Scalar = counter(
        "Facts lost because the backlog was full or the database refused them for good.")
    database_size_bytes: Scalar = gauge("Size of the database in bytes.")
    notices: Series = gauge(
        "Notices of the last 60 days by rule, stage (first, second, admins, digest) and state: dry_run, waiting, sent, "
        "left_out (sent to nobody, by wish or for want of an address), lapsed or failed.", "rule", "stage", "state",
        cap=NOTICES)
    config_last_reload_successful: Scalar = gauge("Whether the last reload of the configuration succeeded.")
    config_last_reload_success_timestamp_seconds: Scalar = gauge(
        "When the configuration was last loaded with success, in seconds since the epoch.")
    build_info: Series = gauge(
        "The running version; always 1.", *BUILD, cap=1)

    capped_series: Series = gauge(
        "Series left out of this page because their metric had reached its cap, by metric.", "metric", cap=100)
