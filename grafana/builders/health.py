"""Daemon health: can what the other dashboards say be believed?"""

from __future__ import annotations

from .dashboard import as_json
from .panels import DAEMON, SITE, Row, column, lines, listing, number, timeline

UP = f"idlewatt_up{{{DAEMON}}}"
NOTHING = "no data: is idlewatt up, and scraped?"
WELL_OR_NOT = {"0": ("well", "green"), "1": ("degraded", "red")}
GOOD_BAD = {"0": ("failed", "red"), "1": ("ok", "green")}


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("health", "Daemon health", "Whether what the other dashboards say can be believed.",
                   ((4, _figures()), (7, _degraded()), (8, _states()), (8, _speed()), (8, _trouble()),
                    (6, _knowledge())), hours=6)


def _figures() -> Row:
    return (
        (3, number("Version of the daemon",
                   "The version of idlewatt that runs. Nothing here: Prometheus does not scrape it, or it is "
                   "down.", f"max by (version) (idlewatt_build_info{{{DAEMON}}})", "short", legend="{{version}}",
                   empty="not scraped")),
        (3, number("Sources failing", "Sources that could not be read the last time. What is read from them is old.",
                   f"count({UP} == 0) or (0 * count({UP}))", "short", steps=((None, "green"), (1.0, "red")))),
        (3, number("Oldest read", "Age of the last success of the source that has failed longest.",
                   f"clamp_min(max(time() - idlewatt_last_success_timestamp_seconds{{{DAEMON}}}), 0)", "s",
                   steps=((None, "green"), (120.0, "orange"), (600.0, "red")))),
        (3, number("Configuration in force",
                   "Whether the last reload was accepted. Refused: the old one goes on, a restart "
                   "would fail.", f"min(idlewatt_config_last_reload_successful{{{DAEMON}}})", "short",
                   text={"0": ("refused", "red"), "1": ("in force", "green")})),
        (3, number("Size of the database", "Size of the history; retention keeps it from growing for ever.",
                   f"sum(idlewatt_database_size_bytes{{{DAEMON}}})", "bytes")),
        (3, number("Facts not yet written", "Facts that are kept in memory because the database did not take them yet.",
                   f"sum(idlewatt_recorder_backlog_records{{{DAEMON}}})", "short",
                   steps=((None, "green"), (10_000.0, "orange")))),
        (3, number("Series left out", "Series over the cap of their metric: somebody upstream sends endless names.",
                   f"sum(idlewatt_capped_series{{{DAEMON}}}) or (0 * count(idlewatt_build_info{{{DAEMON}}}))", "short",
                   steps=((None, "green"), (1.0, "orange")))),
        (3, number("Recording rules",
                   "Whether this Prometheus evaluates idlewatt's recording rules. Without them the dashboards "
                   "work, but no alert can fire: idlewatt grafana install.",
                   'count(partition:idlewatt_wasted_power:ratio{cluster=~"$cluster"}) > bool 0', "short",
                   text={"1": ("loaded", "green")}, empty="no rule or data")))


def _degraded() -> Row:
    return (
        (16, timeline("Degraded over time", "Red: something is wrong with what the daemon knows, by cause. The page "
                      "and /api/v1/status say what, in words; what rests on it is not shown as fresh.",
                      f"clamp_max(max by (cause) (idlewatt_degraded{{{DAEMON}}}), 1)", "{{cause}}", WELL_OR_NOT,
                      empty=NOTHING)),
        (8, listing("Degraded for", "What is wrong now, for how long it has been.",
                    (f"time() - min by (cause) (idlewatt_degraded_since_timestamp_seconds{{{DAEMON}}})",),
                    {"cause": "Cause", "Value": "For"}, unit="s", empty=f"nothing is wrong; or {NOTHING}")))


def _states() -> Row:
    return (
        (14, timeline("Sources read over time",
                      "Red: the source could not be read. Its last good readings age and then "
                      "count as unmeasured; the other sources go on.",
                      f"min by (collector) ({UP})", "{{collector}}", GOOD_BAD, empty=NOTHING)),
        (10, listing("Alerts that fire", "What fires or is about to. The runbook of each is in its annotations.",
                     ('max by (alertname, alertstate, cluster, partition, severity) '
                      '(ALERTS{alertname=~"Gpu.*|WastedPowerHigh|EmptyNodesBurningPower|PowerSourcesDisagree|'
                      'CollectorDown|ConfigReloadFailed|Idlewatt.*", cluster=~"$cluster"})',),
                     {"alertname": "Alert", "alertstate": "State", "severity": "Severity", "partition": "Partition"},
                     special={"Alert": column(width=230)},
                     empty="no alert, or no rules")))


def _speed() -> Row:
    return (
        (12, lines("Time to read each source", "Duration of the last read. Near the timeout: the source is about to "
                   "fail.", ((f"max by (collector) (idlewatt_collector_duration_seconds{{{DAEMON}}})",
                              "{{collector}}"),), "s", empty=NOTHING)),
        (12, lines("Time of each cycle", "Duration of the last run. Longer than its period: beats are skipped.",
                   ((f"max by (cycle) (idlewatt_cycle_duration_seconds{{{DAEMON}}})", "{{cycle}}"),), "s",
                   empty=NOTHING)))


def _trouble() -> Row:
    return (
        (8, lines("Failed and skipped runs", "Runs of a cycle that failed, and beats skipped because the run before "
                  "had not ended, over the time range. Both should be zero; the log names the cycle.",
                  ((f"sum(increase(idlewatt_cycle_failures_total{{{DAEMON}}}[$__range]))", "failed"),
                   (f"sum(increase(idlewatt_cycle_overruns_total{{{DAEMON}}}[$__range]))", "skipped")), "short",
                  empty=NOTHING)),
        (8, lines("Watts that do not add up", "Unaccounted: power of the nodes less all classes, 0 unless the "
                  "accounting is broken. Disagreement: GPUs that claim more than their node's own wall meter.",
                  ((f"sum(abs(idlewatt_unaccounted_power_watts{{{DAEMON}}}))", "unaccounted"),
                   (f"sum(idlewatt_power_source_disagreement_watts{{{DAEMON}}})", "disagreement")), "watt",
                  empty=NOTHING)),
        (8, lines("Memory of the daemon", "Resident memory of the process. It should be flat after the first hour.",
                  ((f"max by (instance) (process_resident_memory_bytes{{{DAEMON}}})", "{{instance}}"),), "bytes",
                  empty=NOTHING)))


def _knowledge() -> Row:
    return (
        (12, listing("Idle floor of GPU models",
                     "What a GPU of each model draws doing nothing, and how we know: learned here, "
                     "configured, or from the catalogue. Everything about waste rests on it.",
                     (f"max by (model, floor_source) (idlewatt_gpu_idle_floor_watts{{{DAEMON}}})",),
                     {"model": "Model", "floor_source": "Known from", "Value": "Idle power"},
                     unit="watt", empty=NOTHING)),
        (12, listing("Trained agents", "Agents that advise, and their age. None: a heuristic is active.",
                     (f"max by ({SITE}, policy, version) (idlewatt_model_info{{{DAEMON}}}) "
                      f"* on ({SITE}, policy) group_left () "
                      f"(time() - max by ({SITE}, policy) (idlewatt_model_trained_timestamp_seconds{{{DAEMON}}}))",),
                     {"policy": "Agent", "version": "Version", "Value": "Age"}, unit="s",
                     empty=f"none: a heuristic is active; or {NOTHING}")))
