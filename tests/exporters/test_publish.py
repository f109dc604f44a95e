import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from idlewatt.exporters.metrics import METRICS, Published
from idlewatt.exporters.metrics.declared import ADVICE, BUCKETS_S, Distribution
from idlewatt.exporters.publish import PublishedCollector, page, registry
from idlewatt.storage.power_classes import GPU_CLASSES, NODE_STATES, WASTED, PowerClass
from idlewatt.storage.records import StrandedCause

GOLDEN = Path(__file__).parent.parent / "recorded" / "golden.prom"

# Labels that belong to targets or to other sites' relabelling (conventions of the field).
FORBIDDEN_LABELS = {"type", "job", "instance", "cluster", "region", "zone", "env", "service", "owner"}
UNITS = {"seconds", "joules", "watts", "bytes", "ratio", "info"}
COUNTED = {"domains", "gpus", "jobs", "records", "series", "up", "successful", "issued", "followed", "verdicts",
           "overruns", "failures", "state", "promotions", "abstaining", "abstentions", "streak", "running", "runs",
           "cost", "cpus", "rows", "forecasts", "degraded", "hosts", "notices", "price", "intensity"}


def facts(**more) -> Published:
    """Return a page on which every metric has a value."""
    a100, v100 = "a100", "v100"
    watts = {(a100, "productive"): 2420.5, (a100, "stranded"): 104.0, (a100, "host_active"): 1210.0,
             (v100, "idle_unallocated"): 408.0, (v100, "node_overhead_empty"): 830.0}
    wasted = {(partition, reason): value for (partition, reason), value in watts.items() if reason in tuple(WASTED)}
    values = {
        "partitions": (a100, v100),
        "power_watts": watts,
        "wasted_power_watts": wasted,
        "energy_joules_total": {key: 3600 * value for key, value in watts.items()},
        "wasted_energy_joules_total": {key: 3600 * value for key, value in wasted.items()},
        "node_power_watts": {("dgx01", "ipmi"): 3734.5, ("dgx03", "estimated"): 1238.0},
        "node_wasted_power_watts": {"dgx01": 104.0, "dgx03": 1238.0},
        "user_wasted_power_watts": {("carol", a100): 161.5},
        "user_power_watts": {("carol", a100): 620.0},
        "node_info": {("dgx01", a100): 1, ("dgx03", v100): 1},
        "flavour_power_watts": {(a100, "s-A100"): 620.0, (a100, ""): 90.0},
        "flavour_wasted_power_watts": {(a100, "s-A100"): 161.5, (a100, ""): 0.0},
        "job_power_watts": {("4711", a100, "carol", "lab", "s-A100"): 620.0},
        "job_wasted_power_watts": {("4711", a100, "carol", "lab", "s-A100"): 161.5},
        "job_start_timestamp_seconds": {("4711", a100, "carol", "lab", "s-A100"): 1.79999e9},
        "unaccounted_power_watts": 0.0,
        "host_unused_watts": {"gpu": 700.0},
        "power_source_disagreement_watts": 12.5,
        "gpu_idle_floor_watts": {("NVIDIA A100-SXM4-40GB", "learned"): 51.2},
        "pue_ratio": 1.3,
        "electricity_price": {"EUR": 0.25},
        "carbon_intensity": 380.0,
        "gpus": {(a100, "productive"): 14, (a100, "stranded"): 2, (v100, "idle_unallocated"): 8},
        "allocated_gpus": {a100: 14, v100: 0},
        "node_gpus": {("dgx01", "allocated"): 14, ("dgx01", "stranded"): 2, ("dgx03", "idle"): 8},
        "gpu_state": {("dgx01", "0"): 8, ("dgx01", "7"): 3, ("dgx03", "0"): 4},
        "stranded_gpus": {(a100, "cpu"): 2},
        "pending_jobs": {(a100, "resources"): 1, (a100, "priority"): 12},
        "jobs": {(a100, "4-gpu", "queued"): 13, (a100, "8-gpu", "running"): 2, (v100, "", "running"): 1},
        "user_queued_jobs": {("carol", a100): 12, ("dave", a100): 1},
        "user_queued_gpus": {("carol", a100): 48, ("dave", a100): 4},
        "finished_jobs": {(a100, "4-gpu", "1d"): 31, (a100, "4-gpu", "7d"): 204},
        "job_wait_mean_seconds": {(a100, "4-gpu", "1d"): 920.0, (a100, "4-gpu", "7d"): 1410.5},
        "job_run_mean_seconds": {(a100, "4-gpu", "1d"): 7300.0, (a100, "4-gpu", "7d"): 9100.0},
        "job_completion_mean_seconds": {(a100, "4-gpu", "1d"): 8220.0, (a100, "4-gpu", "7d"): 10510.5},
        "job_slowdown_mean_ratio": {(a100, "4-gpu", "1d"): 1.9, (a100, "4-gpu", "7d"): 2.4},
        "job_makespan_seconds": {(a100, "4-gpu", "1d"): 85300.0, (a100, "4-gpu", "7d"): 603000.0},
        "job_wait_seconds": {(a100, "lab", "2-4"): Distribution((0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3), 701_000.0)},
        "fragmentation_ratio": {a100: 0.25},
        "utilization_ratio": {(a100, "limit"): 0.74, (a100, "actual"): 0.62},
        "paper_inefficient_power_watts": {(a100, "limit"): 3380.0, (a100, "actual"): 4940.0},
        "unmeasured_gpus": {a100: 1, v100: 0},
        "unmeasured_hosts": {a100: 0, v100: 1},
        "unmeasured_busy_hosts": {a100: 0, v100: 1},
        "outside_scheduler_since_timestamp_seconds": {("dgx01", "3"): 1_799_999_000.0},
        "gpu_error_info": {("dgx01", "5", "79"): 1, ("dgx02", "0", "31"): 1},
        "unmeasured_seconds_total": {a100: 120.0, v100: 0.0},
        "advice_info": {("easy", "wait", "4720", "dgx02", "8"): 1},
        "advice_reason_info": {("easy", "4720", "start", "fills dgx02"): 1,
                               ("easy", "4721", "hold", "needs 16 GPUs, 8 are free in a100"): 1},
        "advice_expected_start_timestamp_seconds": {("easy", "4721"): 1.8e9 + 5400},
        "power_down_info": {"dgx03": 1},
        "power_down_needed_timestamp_seconds": {("dgx03", "estimate"): 1.8e9 + 7200, ("dgx03", "low"): 1.8e9 + 3600},
        "power_down_saving_joules": {("dgx03", "estimate"): 5.8e6, ("dgx03", "low"): 2.6e6, ("dgx03", "high"): 1.5e8},
        "advice_timestamp_seconds": {"easy": 1.8e9},
        "advice_snapshot_timestamp_seconds": {"easy": 1.79999999e9},
        "advice_interval_seconds": 30.0,
        "advice_issued_total": {"easy": 12},
        "advice_followed_total": {"easy": 9},
        "start_forecasts_total": {("easy", "within"): 7, ("easy", "later"): 1},
        "advice_verdicts_total": {("easy", "start", "followed"): 8, ("easy", "hold", "followed"): 1,
                                  ("easy", "hold", "earlier"): 3, ("easy", "hold", "not advised"): 2},
        "communication_cost": {(a100, "actual"): 14.5, (a100, "advised"): 11.25},
        "recommendation_rows": {"elastic": 3, "moves": 0},
        "recommendation_timestamp_seconds": {"elastic": 1.8e9},
        "advice_speedup_ratio": {("easy", "4720"): 2.1},
        "move_info": {("4711", "dgx01", "dgx03", "2", "4721"): 1},
        "power_cap_saving_ratio": {(a100, "4711", "300", "estimate"): 0.12, (a100, "4711", "300", "low"): 0.08,
                                   (a100, "4711", "300", "high"): 0.16},
        "power_profile_saving_ratio": {(a100, "4711", "1 Max-Q", "estimate"): 0.12,
                                       (a100, "4711", "1 Max-Q", "low"): 0.08, (a100, "4711", "1 Max-Q", "high"): 0.16},
        "enclosure_power_watts": {("rack7", "trays"): 98000.0, ("rack7", "switches"): 3600.0, ("rack7", "loss"): 2400.0,
                                  ("rack7", "unmeasured"): 0.0},
        "enclosure_node_power_watts": {("rack7", "tray01"): 5777.0},
        "enclosure_disagreement_watts": {"rack7": 0.0},
        "nvlink_domains": {(a100, "free"): 1.0, (a100, "broken"): 2.0, (a100, "full"): 3.0, (a100, "out"): 4.0},
        "nvlink_domain_broken_gpus": {a100: 31.0},
        "cluster_nvlink_domains": {"free": 1.0, "broken": 2.0, "full": 3.0, "out": 4.0},
        "cluster_nvlink_domain_broken_gpus": 31.0,
        "underused_gpus": {("a100", "waiting_for_data"): 4.0, ("a100", "unknown"): 1.0},
        "capped_gpus": 2,
        "throttled_gpus": {"power": 3, "heat": 1},
        "moves_freed_gpus": {a100: 8},
        "moves_moved_gpus": {a100: 2},
        "elastic_time_ratio": {(a100, "4711", "+4", "estimate"): -0.42, (a100, "4711", "+4", "low"): -0.48,
                               (a100, "4711", "+4", "high"): -0.31},
        "elastic_marginal_gain_ratio": {(a100, "4711", "+4"): 0.18},
        "elastic_info": {(a100, "4711", "+4", "4", "throughput", "now", ""): 1},
        "elastic_unknown_jobs": {"unseen": 3, "one_size": 1, "no_curve": 0, "too_far": 0},
        "allocation_cpus": {(a100, "124", "held"): 24, (a100, "124", "used"): 23.5, (a100, "124", "advised"): 48},
        "allocation_memory_bytes": {(a100, "124", "held"): 2.0**36, (a100, "124", "used"): None,
                                    (a100, "124", "advised"): 2.0**36},
        "allocation_sooner_ratio": {(a100, "124", "estimate"): 0.4, (a100, "124", "low"): 0.0,
                                    (a100, "124", "high"): 0.5},
        "allocation_starts_sooner_seconds": {(a100, "4721"): 5400},
        "allocation_info": {(a100, "124", "running", "dgx01", "measured",
                             "give job 124 the 24 cores that job 123 does not use; both finish sooner"): 1},
        "allocation_jobs": {"measured": 2, "prior": 1, "fair-share": 3},
        "unused_cpus": {a100: 47},
        "unused_memory_bytes": {a100: 2.0**37},
        "simulated_energy_joules_total": {"easy": 8.1e9, "naive": 8.9e9},
        "simulation_energy_error_ratio": -0.031,
        "simulated_wait_seconds_total": {"easy": 3.6e6, "naive": 5.4e6},
        "simulation_wait_error_ratio": 0.08,
        "policy_info": {("naive", "incumbent"): 1, ("easy", "active"): 1, ("fifo", "shadow"): 1,
                        ("gist_mdrl@2", "demoted"): 1},
        "model_info": {("gist_mdrl", "3"): 1},
        "model_trained_timestamp_seconds": {"gist_mdrl": 1.79e9},
        "promotions_total": {"promote": 1, "shadow": 4, "demote": 1, "refuse": 0},
        "abstaining": {"gist_mdrl@3": 0, "scorer@7": 1},
        "abstentions_total": {("scorer@7", "doubt"): 12},
        "drift_ratio": {"scorer@7": 0.02},
        "regret_ratio": {"scorer@7": 0.031, "easy": -0.12},
        "regret_streak": {"scorer@7": 2, "easy": 0},
        "candidate_info": {
            ("scorer@7", "on trial", "mean JCT is 0.69 of that under naive: not better yet"): 1,
            ("sjf-limit+best-fit+easy", "not a candidate", "52% of the jobs have no time limit"): 1},
        "candidate_jct_ratio": {("scorer@7", "estimate"): 0.69, ("scorer@7", "low"): 0.66, ("scorer@7", "high"): 0.73,
                                ("sjf-limit+best-fit+easy", "estimate"): None},
        "heldout_jct_seconds": {("scorer@7", "mean"): 9700.0, ("scorer@7", "p99"): 99000.0, ("naive", "mean"): 14100.0},
        "heldout_wait_seconds": {("scorer@7", "mean"): 2700.0, ("scorer@7", "p99"): 61000.0},
        "heldout_utilization_ratio": {"scorer@7": 0.675, "naive": 0.672},
        "heldout_makespan_seconds": {"scorer@7": 1.2e6, "naive": 1.21e6},
        "heldout_jct_ratio": {("scorer@7", "estimate"): 0.69, ("scorer@7", "low"): 0.66, ("scorer@7", "high"): 0.73},
        "heldout_energy_joules": {("scorer@7", "on"): 7.1e9, ("scorer@7", "down"): 6.2e9},
        "heldout_energy_ratio": {("scorer@7", "on", "estimate"): 0.998, ("scorer@7", "on", "low"): 0.99},
        "heldout_timestamp_seconds": 1.8e9,
        "training_score_ratio": {("scorer@7", "0.1"): 0.91, ("scorer@7", "1"): 0.7},
        "training_running": 0,
        "training_runs_total": {"done": 6, "failed": 1, "interrupted": 0},
        "training_last_success_timestamp_seconds": 1.8e9,
        "up": {"dcgm": 1, "slurm": 0},
        "collector_duration_seconds": {"dcgm": 0.21, "slurm": 10.0},
        "unreadable_records": {"dcgm": 0, "slurm": 2},
        "last_success_timestamp_seconds": {"dcgm": 1.8e9},
        "cycle_duration_seconds": {"scrape": 0.25},
        "cycle_overruns_total": {"scrape": 0},
        "cycle_failures_total": {"scrape": 0},
        "cycle_last_run_timestamp_seconds": {"scrape": 1.8e9},
        "degraded": {"scheduler_unread": 1.0, "targets_down": 0.0},
        "degraded_since_timestamp_seconds": {"scheduler_unread": 1.79999999e9},
        "recorder_backlog_records": 0,
        "recorder_backlog_bytes": 0,
        "recorder_dropped_records_total": 0,
        "reclaimable_gpus": {a100: 4.0},
        "reclaimable_since_timestamp_seconds": {(a100, "4712", "bob", "4"): 1.7e9},
        "database_size_bytes": 1048576,
        "notices": {("idle_gpus", "first", "sent"): 3, ("idle_gpus", "admins", "waiting"): 1},
        "config_last_reload_successful": 1,
        "config_last_reload_success_timestamp_seconds": 1.8e9,
    }
    return Published(**values | more)


def sample(published: Published, name: str, **labels: str) -> float | None:
    return registry(lambda: published).get_sample_value(f"idlewatt_{name}", labels)


def text(published: Published) -> str:
    return page(registry(lambda: published))[0].decode()


def own_lines(published: Published) -> list[str]:
    """Return the page without what differs from machine to machine."""
    own = CollectorRegistry()
    own.register(PublishedCollector(lambda: published))
    lines = page(own)[0].decode().splitlines()
    lines = [re.sub(r"e\+0(\d\d)", r"e+\1", line) for line in lines]  # prometheus-client before 0.26 writes e+010
    return [re.sub(r'(version|python_version)="[^"]*"', r'\1="-"', line) for line in lines]


def test_golden_page_is_what_we_publish_t4():
    # One metric is only there when another has overflowed.
    full = facts(model_info={("gist_mdrl", str(number)): 1 for number in range(52)})
    lines = own_lines(full)
    assert lines == GOLDEN.read_text().splitlines(), "write tests/recorded/golden.prom anew if this is meant"


def test_golden_page_has_every_metric_of_the_catalogue():
    golden = GOLDEN.read_text()
    assert [metric.name for metric in METRICS if f"\n{metric.name}" not in golden] == []


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_finds_nothing_t1():
    checked = subprocess.run(["promtool", "check", "metrics"], input=text(facts()), text=True, capture_output=True,
                             timeout=60)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_t2(metric):
    assert re.fullmatch(r"idlewatt_[a-z0-9_]+", metric.name)
    assert not re.search(r"percent|milli|kilo|kwh|mw$|minutes|hours|days", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    last = metric.name.removesuffix("_total").rsplit("_", 1)[-1]
    assert last in UNITS | COUNTED
    assert not re.search(r"_(by|per|of)_", metric.name), "what a label says is not said in the name"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_and_help_are_declared_t3(metric):
    assert not set(metric.labels) & FORBIDDEN_LABELS
    assert len(metric.help) > 20
    assert metric.help[0].isupper() or metric.help.startswith("(")
    assert 1 <= metric.cap <= 80_000
    unit = re.search(r"(watts|joules|seconds|bytes)(_total)?$", metric.name)
    assert not unit or unit[1] in metric.help, "HELP names the unit"


def test_every_help_is_unique_t3():
    assert len({metric.help for metric in METRICS}) == len(METRICS)


def test_open_metrics_are_negotiated_t4():
    body, content_type = page(registry(facts), "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")


def test_a_vanished_node_leaves_no_stale_series_t5():
    present = [facts()]
    own = registry(lambda: present[-1])
    assert b'idlewatt_node_power_watts{node="dgx03"' in page(own)[0]
    present.append(facts(node_power_watts={("dgx01", "ipmi"): 1.0}))
    assert b"idlewatt_node_power_watts{node=\"dgx03\"" not in page(own)[0]


def test_build_info_is_the_packages_version_and_nothing_is_created_t6():
    body = text(facts())
    assert f'version="{version("idlewatt")}"' in body
    assert "_created" not in body
    assert "process_resident_memory_bytes" in body
    assert "python_info" in body


def test_one_failing_collector_leaves_the_others_intact_t7():
    published = facts(up={"dcgm": 1, "slurm": 0})
    assert sample(published, "up", collector="slurm") == 0.0
    assert sample(published, "up", collector="dcgm") == 1.0
    assert sample(published, "power_watts", **{"partition": "a100", "class": "productive"}) == 2420.5


def test_before_the_first_cycle_the_page_says_nothing_of_the_cluster():
    body = text(Published())
    assert "idlewatt_build_info" in body
    assert "watts" not in body


@pytest.mark.parametrize(("name", "label", "known"), [
    ("power_watts", "class", PowerClass), ("wasted_power_watts", "reason", WASTED), ("gpus", "state", GPU_CLASSES),
    ("stranded_gpus", "cause", StrandedCause), ("energy_joules_total", "class", PowerClass)])
def test_known_label_values_of_every_assessed_partition_start_at_zero(name, label, known):
    empty = Published(partitions=("spare",))
    assert [sample(empty, name, **{"partition": "spare", label: str(value)}) for value in known] == [0.0] * len(known)


def test_every_node_has_a_ratio_for_the_descheduler_t51():
    published = facts(node_gpus={("dgx01", "allocated"): 6, ("dgx01", "idle"): 2, ("dgx02", "unavailable"): 8})
    for node, expected in (("dgx01", 0.75), ("dgx02", 0.0)):
        states = {state: sample(published, "node_gpus", node=node, state=state) for state in NODE_STATES}
        assert None not in states.values()
        assert states["allocated"] / sum(states.values()) == expected


def test_ten_thousand_jobs_stay_under_the_cap_and_the_rest_is_counted_t52():
    urgent_first = {("easy", "wait", str(job), "dgx01", "1"): 1.0 for job in range(10_000)}
    body = text(facts(advice_info=urgent_first))
    assert body.count("\nidlewatt_advice_info{") == ADVICE == 50
    assert 'job_id="0"' in body
    assert f'idlewatt_capped_series{{metric="idlewatt_advice_info"}} {10_000.0 - ADVICE}' in body


def test_waits_are_a_histogram_with_classic_buckets():
    published = facts()
    labels = {"partition": "a100", "account": "lab", "gpus": "2-4"}
    assert sample(published, "job_wait_seconds_bucket", le="60.0", **labels) == 1
    assert sample(published, "job_wait_seconds_bucket", le="+Inf", **labels) == 3
    assert sample(published, "job_wait_seconds_count", **labels) == 3
    assert sample(published, "job_wait_seconds_sum", **labels) == 701_000.0
    many = {("p", str(number), "1"): Distribution((1,) * (len(BUCKETS_S) + 1), 1.0) for number in range(600)}
    body = text(facts(job_wait_seconds=many))
    assert body.count("\nidlewatt_job_wait_seconds_count{") == 500
    assert 'idlewatt_capped_series{metric="idlewatt_job_wait_seconds"} 100.0' in body
    with pytest.raises(ValueError, match="idlewatt_job_wait_seconds has the labels"):
        text(facts(job_wait_seconds={("p",): Distribution((), 0.0)}))


def test_pue_multiplies_nothing_t53():
    def others(pue: float) -> list[str]:
        return [line for line in own_lines(facts(pue_ratio=pue)) if "pue_ratio" not in line]

    assert others(1.0) == others(1.58)


def test_unmeasured_is_absent_not_zero():
    published = facts(pue_ratio=None, node_power_watts={("dgx01", "ipmi"): None, ("dgx02", "ipmi"): float("nan")})
    assert sample(published, "pue_ratio") is None
    assert "idlewatt_node_power_watts{" not in text(published)


def test_wrong_number_of_labels_is_an_error_that_names_the_metric():
    with pytest.raises(ValueError, match="idlewatt_node_power_watts has the labels"):
        text(facts(node_power_watts={"dgx01": 1.0}))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=300), st.floats(allow_nan=False), max_size=5))
def test_any_label_value_leaves_the_page_readable_t14(values):
    body = text(Published(advice_issued_total=values))
    read = {sample.labels["policy"]: sample.value for family in text_string_to_metric_families(body)
            if family.name == "idlewatt_advice_issued" for sample in family.samples}
    kept = {policy[:256].encode(errors="replace").decode(): value for policy, value in reversed(values.items())}
    assert read == kept


def test_quotes_backslashes_newlines_and_broken_bytes_are_escaped_t14():
    body = text(Published(up={'a"b\\c\nd\udc80': 1.0}))
    assert 'idlewatt_up{collector="a\\"b\\\\c\\nd?"} 1.0\n' in body


@pytest.mark.parametrize("asked", ["application/openmetrics-text;version=nan", "text/plain;version=x;q=inf", ";,;"])
def test_a_version_of_the_page_that_is_no_number_gets_the_page_as_everybody_reads_it(asked):
    body, content_type = page(registry(lambda: Published()), asked)
    assert content_type.startswith("text/plain; version=0.0.4")
    assert body
